package main

const transports = "./transport"

// transportMutants break what a client meets: sessions, queues, limits, frames, tokens and the HTTP API.
var transportMutants = []mutant{
	{"membership: a session that was replaced goes on", "transport/internal/membership/status.go", "	TakenOver:    {Member: Replaced, ", "	TakenOver:    {Member: Member, ", "./transport/internal/membership", ""},
	{"membership: a lost place is not sought", "transport/internal/membership/status.go", "	Removed:      {Member: Missing, ", "	Removed:      {Member: Member, ", "./transport/internal/membership", ""},
	{"membership: a leave with an unknown outcome is undone", "transport/internal/membership/status.go", "	LeaveUnknown: {Member: Unknown, ", "	LeaveUnknown: {Member: Member, ", "./transport/internal/membership", ""},
	{"membership: whoever was taken out is brought back", "transport/internal/membership/status.go", "	Ended:        {Member: Outside, ", "	Ended:        {Member: Missing, ", "./transport/internal/membership", ""},
	{"membership: a doubtful one is not asked for", "transport/internal/membership/membership.go", "	case Doubtful, Returned, Unsure:", "	case Returned, Unsure:", "./transport/internal/membership", ""},
	{"membership: one who has returned is not asked for", "transport/internal/membership/membership.go", "	case Doubtful, Returned, Unsure:", "	case Doubtful, Unsure:", "./transport/internal/membership", ""},
	{"membership: a loss is not told", "transport/internal/membership/membership.go", "	if before.IsMember() && m.Status == Outside && in != Left {", "	if false && before.IsMember() {", transports, "TestLost|TestKick_Told"},
	{"outbox: events overtake the reply", "transport/internal/outbox/outbox.go", "	if r.held || r.paused || r.queued", "	if r.paused || r.queued", "./transport/internal/outbox", ""},
	{"outbox: a member is shown the room without itself", "transport/internal/outbox/outbox.go", "	if r.held || r.paused || r.queued", "	if r.held || r.queued", "./transport/internal/outbox", ""},
	{"outbox: an event behind the list comes twice", "transport/internal/outbox/room.go", "	if r.ended || e.Epoch == r.at.epoch && e.Version <= r.at.version || r.isLate(e) {", "	if r.ended || r.isLate(e) {", "./transport/internal/outbox", ""},
	{"outbox: an event of an epoch that is over comes", "transport/internal/outbox/room.go", `	return e.Snapshot == nil && r.at.epoch != "" && e.Epoch != r.at.epoch && e.From > 0`, "	return false", "./transport/internal/outbox", ""},
	{"outbox: has no bound", "transport/internal/outbox/outbox.go", "return o.queued.changes+o.inFlight.changes > o.max", "return false", "./transport/internal/outbox", ""},
	{"outbox: requests have no bound", "transport/internal/outbox/outbox.go", "	for o.queued.frames+o.inFlight.frames >= o.max && !o.finished {", "	for false {", "./transport/internal/outbox", ""},
	{"session: one that was replaced acts", "transport/presence.go", "	if s.replaced {\n		p.busy--\n		return nil, errReplaced\n	}\n", "", transports, "TestTakeOver_RequestBehind"},
	{"session: the wrong close code for one that was replaced", "transport/presence.go", "	s.end(protocol.CloseReplaced, replacedText)\n}", "	s.end(protocol.CloseTooMany, replacedText)\n}", transports, "TestTakeOver_NewerSession|TestTakeOver_LateRejoin"},
	{"session: a request may begin any number of rooms", "transport/session.go", "len(s.presences) < limit || admin {", "true || admin {", transports, "TestWatch_MaxRooms"},
	{"session: an event that comes during a request is forgotten", "transport/presence.go", "		p.deferred = append(p.deferred, e) // only", "		_ = p.deferred // only", transports, "TestTakeOver_RemovedBefore|TestRejoin_RemovedBeforeReply|TestKick_AtTheSameInstant|TestTakeOver_AtRandom"},
	{"session: a closing one frees its seats", "transport/conn.go", `	if code, text, _ := c.closeReason(); code == websocket.CloseNormalClosure && text == "" {`, `	if code, text, _ := c.closeReason(); code >= 0 && text == "" {`, transports, "TestAway_EveryOtherEnd"},
	{"session: a goodbye keeps its seats", "transport/conn.go", `	if code, text, _ := c.closeReason(); code == websocket.CloseNormalClosure && text == "" {`, `	if code, _, _ := c.closeReason(); code < 0 {`, transports, "TestAway_ClosedOnPurpose"},
	{"grace: it does not end", "transport/disconnect.go", "	delete(g.running, one)\n	g.leave(one)", "	delete(g.running, one)", transports, "TestGrace_Ends"},
	{"grace: others do not see that the user is away", "transport/disconnect.go", "room.Detach{User: user, Session: session}, tried)", "room.Keep{User: user, Session: session}, tried)", transports, "TestAway_TwoNodes"},
	{"limits: any number of requests", "transport/throttle.go", "		if wait := arrival - now - l.burst; wait > 0 {", "		if wait := arrival - now - l.burst; wait > time.Hour {", transports, "TestBucket|TestRate_Burst"},
	{"limits: each connection of a user has its own rate", "transport/throttle.go", "	if wait == 0 && t.user != nil {", "	if false {", transports, "TestRate_ManyConnections|TestRate_UsersWithTokens"},
	{"limits: a flood is not cut off", "transport/throttle.go", "	cutOff = t.user == nil || t.user.noop.take(noopLimit, now) > 0", "	cutOff = t.user == nil", transports, "TestRate_FloodCutOff|TestFlood_CutOff"},
	{"pings: a silent client stays", "transport/heartbeat.go", "	case now < end:\n		return end - now", "	case end > 0:\n		return interval", transports, "TestHeartbeat_VanishedClient|TestHeartbeat_Silence"},
	{"pings: a client that talks is pinged", "transport/heartbeat.go", "	case now < heard+interval:\n		return heard + interval - now\n", "", transports, "TestHeartbeat_TalkingClient"},
	{"slow reader: the wrong close code", "transport/writer.go", "		w.conn.end(protocol.CloseTooSlow, ", "		w.conn.end(protocol.CloseTooMany, ", transports, "TestSlowReader_CutOff|TestSlowReader_StopsReading"},
	{"frames: one without a mask", "transport/framereader.go", "	case start[1]&0x80 == 0:", "	case false:", transports, "TestConnection_Ends|TestFrames|TestAutobahn_Framing"},
	{"frames: text that is not UTF-8", "transport/framereader.go", "			if !ok {\n				return errNotUTF8\n			}\n", "			_ = ok\n", transports, "TestAutobahn_UTF8"},
	{"frames: a character that is cut off", "transport/framereader.go", "	if checked < into.Len() {", "	if false {", transports, "TestAutobahn_UTF8"},
	{"frames: of any length", "transport/framereader.go", "		if h.length > uint64(r.max-into.Len()) {", "		if h.length > 1<<40 {", transports, "TestLimits_Frame"},
	{"frames: a close code that must not be sent", "transport/reader.go", "	return 1000 <= code && code <= 1014 || 3000 <= code && code <= 4999", "	return true", transports, "TestAutobahn_Close"},

	{"protocol: names in other letter case", "transport/protocol/fields.go", "if string(name) == f.name() {", "if strings.EqualFold(string(name), f.name()) {", "./transport/protocol", ""},
	{"protocol: more behind the object", "transport/protocol/decode.go", "	if _, err := d.json.ReadToken(); err != io.EOF {", "	if false {", "./transport/protocol", ""},
	{"protocol: no id", "transport/protocol/decode.go", "	for _, f := range [...]field{fieldID, fieldAction} {", "	for _, f := range [...]field{fieldAction} {", "./transport/protocol", ""},
	{"protocol: a bad field is overlooked", "transport/protocol/decode.go", "d.badCommon, d.badAction, d.badOther, d.badName} {", "d.badCommon, d.badAction, d.badName} {", "./transport/protocol", ""},
	{"auth: a token without exp", "transport/auth/claims.go", `	expires, ok := readTime(members["exp"])
	if !ok {
		return errExpires
	}
`, `	expires, ok := readTime(members["exp"])
	if !ok {
		expires = time.Now().Add(time.Hour)
	}
`, "./transport/auth", ""},
	{"auth: one that has expired", "transport/auth/claims.go", "	return &jwt.NumericDate{Time: c.identity.Expires}, nil", "	return &jwt.NumericDate{Time: c.identity.Expires.AddDate(9, 0, 0)}, nil", "./transport/auth", ""},
	{"auth: the token says by which algorithm", "transport/auth/verifier.go", "	case head.algorithm != found.algorithm:\n		return Identity{}, errAlgorithm\n	}\n	said := new(claims)\n	_, err = v.parser.ParseWithClaims(token, said, func(parsed *jwt.Token) (any, error) {\n		if parsed.Method.Alg() != found.algorithm {", "	}\n	said := new(claims)\n	_, err = v.parser.ParseWithClaims(token, said, func(parsed *jwt.Token) (any, error) {\n		if false {", "./transport/auth", ""},
	{"auth: any room", "transport/auth/identity.go", "matched && err == nil }", "matched || err == nil }", "./transport/auth", ""},
	{"auth: a role that nobody knows", "transport/auth/claims.go", "c.identity.Role != RolePlayer && c.identity.Role != RoleAdmin {", "c.identity.Role == \"\" {", "./transport/auth", ""},
	{"auth: an extension that it does not know", "transport/auth/claims.go", `	if members["crit"] != nil {`, `	if false {`, "./transport/auth", ""},
	{"auth: a connection outlives its token", "transport/access.go", "	case !time.Now().Before(granted.Expires): // after", "	case false: // after", transports, "TestToken_ClockSteps"},
	{"auth: another user renews", "transport/access.go", `	if user := a.granted.User; user != "" && user != identity.User {`, `	if false {`, transports, "TestToken|TestHandshake|TestAccess"},
	{"auth: a token for a room allows all", "transport/access.go", "	return granted.May(use, id, member)", "	_, _, _ = use, granted, member\n	return nil", transports, "TestToken_Rooms"},
	{"api: who may watch reads the journal", "transport/api/access.go", "case op.method == http.MethodGet && !op.admin:", "case op.method == http.MethodGet:", "./transport/api", "TestPrivate_WhoIsShown"},
	{"auth: an admin has authority where the token does not allow the room", "transport/actions.go", "Authority: s.viewer(in.Room).Authority, Name", "Authority: s.isAdmin(), Name", transports, "TestAuthority_TokenWithoutTheRoom"},
	{"api: the journal gives all changes a seat", "transport/api/journal.go", "	if c.Type.OfMember() {", "	if true {", "./transport/api", "TestJournal_EveryKind"},
	{"api: players hear of an operator's keys", "transport/api/problem.go", "ok && q.token.Role == auth.RoleAdmin {", "ok && auth.RoleAdmin != \"\" {", "./transport/api", "TestRead_Foreign"},
	{"api: If-Match does not count", "transport/api/etag.go", "			return room.ExpectVersion(found[1], version), nil", "			_ = version\n			return expected, nil", "./transport/api", "TestRoom_Configure|TestData_ComparedAndSet"},
	{"api: If-Match counts in any epoch", "transport/api/etag.go", "room.ExpectVersion(found[1], version)", `room.ExpectVersion("", version)`, "./transport/api", "TestRoom_Configure|TestData_ComparedAndSet"},
	{"api: a condition that does not count is ignored", "transport/api/etag.go", "		if len(q.Header[name]) > 0 && !(op.match", "		if false && !(op.match", "./transport/api", "TestRoom_Configure"},

	{"deploy: a pod is killed while its node drains", "cmd/roomd/deploy/kubernetes/roomd.yaml", "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 30", "./transport/roomd", "TestKubernetes_Node"},

	{"webhook: a refusal counts as taken", "transport/webhook/deliver.go", "	if res.StatusCode < 200 || res.StatusCode > 299 {", "	if false {", "./transport/webhook", "TestWebhook_Away|TestWebhook_BadReceiver"},
	{"webhook: the place is not kept", "transport/webhook/webhook.go", "				if err := keep(m.next); err != nil {", "				if err := keep(place); err != nil {", "./transport/webhook", "TestWebhook_OneSends|TestWebhook_Gap"},
	{"webhook: the place is kept before the receiver has acknowledged", "transport/webhook/webhook.go", "			if err := w.deliver(ctx, m); err != nil {", "			if m.next != \"\" {\n				_ = keep(m.next)\n			}\n			if err := w.deliver(ctx, m); err != nil {", "./transport/webhook", "TestWebhook_Away"},
	{"webhook: a redirection is followed", "transport/webhook/deliver.go", "{ return http.ErrUseLastResponse }", "{ return nil }", "./transport/webhook", "TestWebhook_BadReceiver"},
	{"metrics: the traces of a program are not called", "transport/node/observe.go", "	cfg.Room.Trace = metrics.Join(n.metrics.Rooms(), cfg.Room.Trace)", "	cfg.Room.Trace = n.metrics.Rooms()", "./transport/node", "TestAdminListen_OfAProgram"},
	{"metrics: the second end of a node takes those of another", "transport/node/observe.go", "sync.OnceFunc(func() { with.Unregister(n.metrics) })", "func() { sync.OnceFunc(func() {})(); with.Unregister(n.metrics) }", "./transport/node", "TestRegisterer"},
	{"metrics: everybody may read them", "transport/node/admin.go", `mux.Handle("GET /metrics", a.protect(metrics, refuseText))`, `mux.Handle("GET /metrics", metrics)`, "./transport/node", "TestWhoIsAnOperator"},
	{"operators' page: a room that differs is not named", "transport/page/admin/problems.js", "[...ofRooms(fleet.live), ", "[", "./transport/roomd", "TestOperatorsPage_OneClickToAProblem"},
	{"operators' page: a silent node is not named", "transport/page/admin/problems.js", `state === "silent" || `, "", "./transport/roomd", "TestOperatorsPage_OneClickToAProblem"},
	{"operators' page: it says that all is well while nobody answers", "transport/page/admin/problems.js", "at === undefined || !current ?", "at === undefined ?", "./transport/roomd", "TestOperatorsPage_Violation"},
}
