package main

const (
	history = "./loadtest/history"
	audit   = "./loadtest/audit"
	witness = "./loadtest/check"

	chaosRun = "./loadtest/chaos"
)

// checkerMutants break what proves the lists: a checker that finds nothing.
var checkerMutants = []mutant{
	{"audit: who wants a file gets no findings", "cmd/roomload/audit.go", "if c.JSON == \"-\" {", "if c.JSON != \"\" {", "./cmd/roomload", "TestAudit"},
	{"history: a lost join", "loadtest/history/acks.go", "		p.room.lost(p.log.name, a.version, Change{Type: Join, User: user, Seat: int(a.seat)})\n", "", history, ""},
	{"history: a take-over excuses a leave", "loadtest/history/removals.go", "	if v.member && !removes(reason) && reason != Replaced {", "	if v.member && !removes(reason) {", history, "TestRemovals_EachKind"},
	{"history: a lost leave", "loadtest/history/acks.go", "			p.room.lost(p.log.name, a.version, Change{Type: Leave, User: user, Seat: 0})\n", "", history, ""},
	{"history: who came in spite of a ban", "loadtest/history/acks.go", "model.Banned(a.at, ban.BannedUntil)", "!model.Banned(a.at, ban.BannedUntil)", history, ""},
	{"history: a conflict within an event", "loadtest/history/registers.go", "(i < n || writes[i].from < v)", "i < n", history, ""},
	{"history: a removal counts for other reasons", "loadtest/history/removals.go", "ousted{user: user, reason: said.Reason, target: said.Target}", "ousted{user: user}", history, ""},
	{"history: a membership not heard of", "loadtest/history/removals.go", "v.arrives || !v.member && v.unsure > 0}", "v.arrives}", history, ""},
	{"history: a newer reservation is used first", "loadtest/history/pool.go", "	*list = slices.Delete(*list, 0, 1)\n", "	*list = (*list)[:c.usable(action, version)-1]\n", history, ""},
	{"history: the data before the run", "loadtest/history/registers.go", "	if e.data != \"\" {", "	if false {", history, ""},
	{"history: data that nobody set", "loadtest/history/acks.go", "			case c.kind == roomData && !p.asked", "			case false && !p.asked", history, ""},
	{"history: two on one seat", "loadtest/internal/model/model.go", "	if other, taken := s.At[seat]; taken && other != user {", "	if other, taken := s.At[seat]; taken && other == user {", history, ""},
	{"history: more members than seats", "loadtest/history/roster.go", "	if (model.Settings{Capacity: capacity}).Over(count) <= 0 {", "	if true {", history, ""},
	{"history: a user twice in a list", "loadtest/history/roster.go", "		if _, there := r.Of[m.User]; there {", "		if false {", history, ""},
	{"history: who left and was not there", "loadtest/history/roster.go", "	case c.Type == Leave && !there:", "	case false:", history, ""},
	{"history: a member who does what only the host may", "loadtest/history/seats.go", "a.By == \"\" || !a.governs()", "true || !a.governs()", history, ""},
	{"history: a room without a host", "loadtest/history/view.go", "		faults = append(faults, v.matter.governed(&v.roster)...)\n", "", history, ""},
	{"history: a shuffle that leaves one out", "loadtest/history/seats.go", "len(users) > 1 && !changed(user, reseat)", "len(users) > 1 && false", history, ""},
	{"history: a match that began another room", "loadtest/history/match.go", "list.Version == 1 && *got != wanted", "false", history, ""},
	{"history and chaos: a seat that nobody left for another", "loadtest/internal/model/model.go", "	if _, left := s.given[seat]; left {", "	if true {", history, ""},
	{"reports: a disturbed round counts", "loadtest/report/figure.go", "(sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2", "sorted[len(sorted)-1]", "./loadtest/report", "TestMedian"},
	{"reports: a legend without values", "loadtest/report/chart.js", "`at most ${short(most(i))}`", "\"\"", "./loadtest/report", "TestPage_InABrowser"},
	{"reports: grid lines over the names of faults", "loadtest/report/chart.js", "drawClear: [shade], draw: [nameSpans]", "drawClear: [shade, nameSpans]", "./loadtest/report", "TestPage_InABrowser"},
	{"reports: words over each other", "loadtest/report/chart.js", "return longest < room ? 0", "return true ? 0", "./loadtest/report", "TestPage_InABrowser"},
	{"reports: a table wider than the page", "loadtest/report/parts.html", "gt (len .Columns) 12", "gt (len .Columns) 99", "./loadtest/report", "TestPage_InABrowser"},
	{"chaos: a timer that fires twice", "loadtest/check/state.go", "set := s.timers[c.Name]; !set && !c.Set {", "set := s.timers[c.Name]; !set && false {", witness, ""},
	{"chaos: a timer that never fires", "loadtest/check/witness.go", "	if len(s.timers) > 0 {", "	if false {", witness, ""},
	{"chaos: two on one seat behind a shuffle", "loadtest/check/state.go", "	for _, user := range s.seats.Settle() {", "	for _, user := range s.seats.Settle()[:0] {", witness, ""},
	{"chaos: private data that a move loses", "loadtest/check/luggage.go", "		if !some || a.now == had ||", "		if !some || a.now == \"\" || a.now == had ||", witness, "TestWitness"},
	{"chaos: the reason of a refused exchange is of both rooms", "loadtest/check/sequential.go", "		if op.Action != MoveOut && !op.Exchange && r.knowsSettings", "		if op.Action != MoveOut && r.knowsSettings", witness, "TestLinearize_ExchangeRefused"},
	{"chaos: who is gone behind its last answer", "loadtest/check/linearize.go", "s.last = true", "s.last = false", witness, ""},
	{"chaos: who is gone without a last answer", "loadtest/check/linearize.go", "			p.instant(b.from, step{env: loosen, users: []string{c.User}})\n", "", witness, ""},
	{"chaos: an undone move counts as a phantom", "loadtest/check/witness.go", "op.Outcome == Unknown || half", "op.Outcome == Unknown || half && false", witness, "TestWitness_MoveTakenBack"},
	{"chaos: a refused move that loses its user", "loadtest/check/history.go", "op.Outcome == Refused && op.First:", "op.Outcome == Refused:", witness, "MoveTakenBack"},
	{"chaos: a move that is done again counts as a violation", "loadtest/check/history.go", "	case op.Outcome == Done, op.Outcome == Refused", "	case op.Outcome == Refused", witness, "MoveTakenBack"},
	{"chaos: half a move may be seen for ever", "loadtest/check/linearize.go", "p.instant(until, step{env: whole", "p.instant(p.end, step{env: whole", witness, "TestLinearize_MoveTakenBack"},
	{"chaos: a refusal is true of two epochs", "loadtest/check/linearize.go", "op.Return < p.to && !h.split(op):", "op.Return < p.to:", witness, "TestLinearize_TwoServersAnswer"},
	{"chaos: a fault explains what came behind it", "loadtest/check/evicted.go", "f.evicts(op.Call, r.told)", "f.evicts(0, r.told)", witness, "TestLinearize_Evicted"},
	{"chaos: a slow machine counts as a violation", "loadtest/check/evicted.go", "c.Reason == \"node\"", "c.Reason == \"none\"", witness, ""},
	{"chaos: a commit that no reader of the feed was told", "loadtest/check/feed.go", "	for i, e := range l.journal {\n		p := Point{e.Epoch, e.Version}\n		if _, told", "	for i, e := range l.journal[:0] {\n		p := Point{e.Epoch, e.Version}\n		if _, told", witness, "TestFeed"},
	{"chaos: commits of the feed in another order", "loadtest/check/feed.go", "		return p.Version == l.last.Version+1 ||", "		return true ||", witness, "TestFeed"},
	{"chaos: a gap of the feed where nothing is missing", "loadtest/check/feed.go", "	case !l.lossy(t.At) && (!is || i > 0):", "	case i > 0 && !is:", witness, "TestFeed"},
	{"chaos: a commit of the feed with another content", "loadtest/check/feed.go", "; t.Sum != want {", "; false && t.Sum != want {", witness, "TestFeed"},
	{"chaos: what is in use rises", "loadtest/chaos/resources.go", "			q.Rises = q.Last > q.Bound ||", "			q.Rises = false &&", chaosRun, "TestJudgeUse"},
	{"chaos: a node that gets past its networks", "loadtest/chaos/link.go", "DialContext(ctx, network, by)", "DialContext(ctx, network, addr)", "./loadtest/chaos", "TestLinks_LeadAllConnections"},
	{"audit: an entry that was changed", "loadtest/audit/chain.go", "	if e.Mark != e.sum {", "	if false {", audit, "TestTampering_EachField"},
	{"audit: a broken chain", "loadtest/audit/chain.go", "	case known && e.Prev != before:", "	case false:", audit, "TestOracle_EachRule"},
	{"audit: an epoch that begins in the middle", "loadtest/audit/chain.go", "	case o.epochs[e.Epoch], e.Version > o.version+1:", "	case o.epochs[e.Epoch]:", audit, "TestOracle_EachRule"},
	{"audit: a member whom Redis has lost", "loadtest/audit/final.go", "		if _, ok := f.users[user]; !ok {", "		if false {", audit, "TestOracle_EachRule"},
	{"audit: another version in Redis", "loadtest/audit/final.go", `	case meta["epoch"] != o.epoch || version != o.version || meta["mark"] != o.mark:`, "	case false:", audit, "TestOracle_EachRule"},
	{"audit: a member on another seat", "loadtest/audit/final.go", "	case o.seats.Of[user] != r.Seat:", "	case false:", audit, "TestOracle_EachRule"},
	{"audit: a join into a closed room", "loadtest/audit/members.go", "		case !c.Again:\n			o.find(RuleClosed", "		case false:\n			o.find(RuleClosed", audit, "TestOracle_EachRule"},
	{"audit: a session out of turn", "loadtest/audit/members.go", `	if !fits || m.session != "" && c.Old != m.session {`, "	if !fits {", audit, "TestOracle_EachRule"},
	{"lab: a hold that overlaps another", "loadtest/lab/anomaly/holders.go", "if i > 0 && h.from < last.to && h.caller != last.caller {", "if false {", "./loadtest/lab/anomaly", ""},
}
