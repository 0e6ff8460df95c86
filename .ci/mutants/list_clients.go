package main

const (
	goClient = "./transport/client"
	page     = "./transport/page"
	script   = "transport/page/roomd.js"
	jsTests  = "TestClient_Scenarios"
)

// clientMutants break both clients.
var clientMutants = []mutant{
	{"client: applies an event in spite of a gap", "transport/client/replica.go", "	if !begins && (e.Epoch != v.Epoch || e.From != v.Version) {", "	if false && begins {", goClient, "TestReplica_Events"},
	{"referee: a move counts twice", "transport/client/referee/table.go", "move.Version <= m.Moved", "false", "./transport/client/referee", "TestReferee_EachMoveOnce"},
	{"referee: who is late writes all the same", "transport/client/referee/session.go", ", client.Expect(view.Epoch, view.Version))", ")", "./transport/client/referee", "TestReferee_EachMoveOnce"},
	{"referee: believes what players have set", "transport/client/referee/session.go", "\t\tdata = \"\"\n", "", "./transport/client/referee", "TestReferee_ForgedData"},
	{"referee: the room keeps the settings that it has", "transport/client/referee/session.go", "s.cfg.Settings != nil && !s.here", "false", "./transport/client/referee", "TestReferee_Settings"},
	{"referee: nobody else may change the settings", "transport/client/referee/session.go", "s.cfg.Settings != nil && !s.here", "s.cfg.Settings != nil", "./transport/client/referee", "TestReferee_Settings"},
	{"referee: all that has waited is one version, or none", "transport/client/referee/session.go", "case calls <= 1:", "case true:", "./transport/client/referee", "TestReferee_MuchHasWaited"},
	{"referee: who left and came back is not told", "transport/client/referee/table.go", "!slices.Contains(m.Hands, user)", "true", "./transport/client/referee", "TestReferee_LeftAndBack"},
	{"referee: half of a refused move stays", "transport/client/referee/session.go", "after = s.cfg.New()", "after = game", "./transport/client/referee", "TestReferee_TakesOver"},
	{"referee: what it says itself is heeded", "transport/client/referee/session.go", "\t\t\tcalls++\n\t\t}\n\t\tt.log.Epoch", "\t\t}\n\t\tcalls++\n\t\tt.log.Epoch", "./transport/client/referee", "TestReferee_RefusesInOneVersion"},
	{"cards: who can follow suit need not", "transport/client/referee/cards/game.go", "card/13 != g.Trick[0]/13 })", "false })", "./transport/client/referee/cards", "TestGame_Rules"},
	{"cards: anybody deals", "transport/client/referee/cards/game.go", "user == t.View().Host && ", "", "./transport/client/referee/cards", "TestGame_HostDeals"},
	{"client: another epoch goes on", "transport/client/replica.go", "(e.Epoch != v.Epoch || e.From != v.Version)", "(e.From != v.Version)", goClient, "TestReplica_Events"},
	{"client: changes a list that it has lent", "transport/client/replica.go", "	if r.lent {", "	if false {", goClient, "TestReplica_Events"},
	{"client: a member who is back stays away", "transport/client/replica.go", "		v.Users[i].Away = c.Type == protocol.ChangeAway", "		v.Users[i].Away = true", goClient, "TestReplica"},
	{"client: does not come back to its room", "transport/client/membership.go", "	case r.err == nil && v.Member && !r.joined:", "	case false:", goClient, "TestReconnect_SameVersion|TestReconnect_Rejoin$"},
	{"client: comes back to any seat", "transport/client/membership.go", "		if v.Seat != noSeat {", "		if false {", goClient, "TestReconnect_SameVersion|TestReconnect_Rejoin$"},
	{"client: does not watch again", "transport/client/membership.go", "	case r.err == nil && v.Watching && !r.watched:", "	case false:", goClient, "TestReconnect_Rejoin$|TestMove_LostAndMoved"},
	{"client: a lost seat is not told", "transport/client/membership.go", "	r.replica.notify()\n	r.endIfUnusedLocked(why)", "	r.endIfUnusedLocked(nil)", goClient, "TestReconnect_RejoinRefused"},
	{"client: does not follow a move", "transport/client/membership.go", `	if why.To != "" {`, `	if false {`, goClient, "TestMove_LostAndMoved"},
	{"client: an iteration without a bound", "transport/client/changes.go", "	if !f.behind && len(f.queue) >= maxLag {", "	if false {", goClient, "TestChanges_SlowReader"},
	{"client: an iteration begins without a snapshot", "transport/client/changes.go", "	f := &feed{queue: append([]Change{r.replica.snapshot()}, r.replica.unread...)}", "	f := &feed{queue: r.replica.unread}", goClient, ""},
	{"client: connects again after it was replaced", "transport/client/reconnect.go", "protocol.CloseReplaced, protocol.CloseTooMany:", "protocol.CloseTooMany:", goClient, "TestReconnect_EndsForGood"},
	{"client: shows a refused token again and again", "transport/client/reconnect.go", "again := k.cfg.Token != nil && !k.refused", "again := k.cfg.Token != nil", goClient, "TestReconnect_TokenRefused"},
	{"client: a token lasts as the own clock says", "transport/client/session.go", "return expires.Sub(time.UnixMilli(reply.Time))", "_ = reply; return time.Until(expires)", goClient, "TestToken_Renewed"},
	{"roomd.js: a token lasts as the own clock says", script, "const left = this.#expires * 1000 - reply.time || 0", "const left = this.#expires * 1000 - Date.now()", page, "TestClient_Tokens"},
	{"roomd.js: silence is measured by a clock that somebody sets", script, "  #listen() {\n    this.#heard = performance.now()", "  #listen() {\n    this.#heard = Date.now()", page, jsTests + "/a_silent_connection_is_given_up"},
	{"roomd.js: what is no option is passed over", script, "if (name !== undefined) throw", "if (false) throw", page, "TestClient_TwoNodes"},
	{"client: waits for a server in silence", "transport/client/reconnect.go", "attempts == silentAttempts && !k.before", "false", goClient, "TestConnect_Unreachable"},
	{"roomd.js: waits for a server in silence", script, "n === SILENT_ATTEMPTS - 1 && ", "false && ", page, "TestClient_TwoNodes"},
	{"roomd.js: all hear what is proposed", script, "data: move, to: [] }", "data: move }", page, jsTests + "/a_move_is_proposed"},
	{"client: all hear what is proposed", "transport/client/room.go", "return r.SayTo(ctx, nil, Message{Data: move})", "return r.Say(ctx, Message{Data: move})", goClient, "TestClient_Scenarios/a_move_is_proposed"},
	{"client: a silent server is believed", "transport/client/session.go", "		if c.heard.Load() == before {", "		if c.heard.Load() < before {", goClient, "TestSession_Heartbeat"},
	{"client: a reply goes to the wrong request", "transport/client/call.go", "	k.req.ID = c.lastID\n", "	k.req.ID = c.lastID / 2\n", goClient, "TestRequest_Concurrent"},
	{"client: a leave without an answer leaves a room that hears no more", "transport/client/membership.go", "!reply.Error.Is(protocol.ErrNotMember) && !reply.Error.Is(protocol.ErrUnknown) {", "!reply.Error.Is(protocol.ErrNotMember) {", goClient, "TestClient_Scenarios/a_leave_that_may"},
	{"client: a list of rooms is shown in parts", "transport/client/lobby.go", "if parts = append(parts, e); e.More {", "if parts = append(parts, e); false {", goClient, "TestLobby_Lists"},
	{"client: a refused lobby is asked for again and again", "transport/client/lobby.go", "		case final:\n			return err\n", "		case final && k.next < 9:\n", goClient, "TestLobby_Refused"},

	{"roomd.js: applies an event in spite of a gap", script, "    if (from !== this.version || (epoch !== this.epoch && !begins)) {", "    if (false) {", page, jsTests + "/where_events_are_missing"},
	{"roomd.js: another epoch goes on", script, "(epoch !== this.epoch && !begins)", "false", page, jsTests + "/changes_of_another_epoch"},
	{"roomd.js: does not come back to its room", script, "    if (mirror.member) {\n      const since", "    if (false) {\n      const since", page, jsTests + "/comes_back_to_the_same_seat"},
	{"roomd.js: does not watch again", script, "    if (mirror.watching && this.#link === link) {", "    if (false) {", page, jsTests + "/watches_again"},
	{"roomd.js: does not follow a move", script, "    if (!event.to) return", "    if (event.to) return", page, jsTests + "/what_is_asked_of_the_room_of_a_move"},
	{"roomd.js: repeats what must not be repeated", script, "      if (!request.sent || REPEATABLE.has(request.frame.action)) again.push(request)", "      if (true) again.push(request)", page, jsTests + "/an_unanswered_message"},
	{"roomd.js: does not know what a restart has not begun", script, "      if (code === RESTART) request.sent = false\n", "", page, jsTests + "/what_a_node_that_restarts"},
	{"client: does not know what a restart has not begun", "transport/client/call.go", "return nil, !isRestart(err), err", "return nil, true, err", goClient, "TestClient_Scenarios/what_a_node_that_restarts"},
	{"client: each end of a connection is a restart", "transport/client/errors.go", "return is && closed.Code == protocol.CloseRestart", "return is && closed.Code > 0", goClient, "TestClient_Scenarios/an_unanswered_message"},
	{"roomd.js: connects again after it was replaced", script, `    if (code === 4001) this.#fail(`, `    if (code === 1) this.#fail(`, page, jsTests + "/a_newer_session"},
	{"roomd.js: a leave without an answer is taken for one that was done", script, "    return reply.error?.code === \"unknown\" ? refusal(reply) : undefined\n", "", page, jsTests + "/a_leave_that_may"},
	{"roomd.js: a list of rooms is shown in parts", script, "    if (event.more) return\n", "", page, jsTests + "/the_lobby.s_node_stops"},
	{"roomd.js: a lobby does not end", script, "    if (this.over.aborted) return { done: true, value: undefined }\n", "", page, jsTests + "/the_program_stops"},
	{"roomd.js: a lost seat is not told", script, `    if (!this.lost) this.#tell([Object.freeze({ type: "lost"`, `    if (false) this.#tell([Object.freeze({ type: "lost"`, page, jsTests + "/a_move_that_was_missed"},
	{"clients: roomd.js says that nothing was done of what it had sent", "transport/page/roomd.js", "if (request.sent) request.done(", "if (false) request.done(", page, "TestClient_Scenarios/what_was_sent"},
	{"clients: roomd.js gives up what comes too fast", "transport/page/roomd.js", `frame.error?.code === "rate_limited" && (`, `false && (`, page, "TestClient_Scenarios"},
	{"clients: roomd.js sends as much at once as before", "transport/page/roomd.js", "    this.#window = 1\n", "", page, "TestClient_Rate"},
	{"clients: what comes too fast is given up", "transport/client/client.go", "		case again && tries+1 < rateTries:", "		case again && false:", "./transport/client", "TestReconnect_ManyRooms|TestClient_Scenarios"},
	{"clients: as much at once as before", "transport/client/session.go", "	s.window = 1\n", "", "./transport/client", "TestReconnect_ManyRooms"},
}
