package main

const rules = "./room"

// roomMutants break the rules of rooms, what scripts do to rooms, and how events arrive.
var roomMutants = []mutant{
	{"rules: one seat too many", "room/seating.go", "	case in.Count() >= all:", "	case in.Count() > all:", rules, ""},
	{"rules: a seat is given twice", "room/seating.go", `	case in.UserAt(asked) != "":`, `	case asked < 0:`, rules, ""},
	{"rules: a ban does not count", "room/kick.go", "	case !banned || until <= now:", "	case !banned || until <= now || true:", rules, ""},
	{"rules: a ban never ends", "room/kick.go", "	case !banned || until <= now:", "	case !banned:", rules, ""},
	{"rules: who was taken out comes back", "room/join.go", "	if err := a.checkGone(r); err != nil {\n		return 0, err\n	}\n", "", rules, ""},
	{"rules: a session that was replaced takes over again", "room/join.go", "		return m.Reserved() // else the member's session is newer, connected or not", "		return true", rules, ""},
	{"rules: any session may leave for the user", "room/leave.go", "	case m.SessionID() != a.Session:\n		return 0, elsewhere(r, a.User)\n	}\n	r.update(by.Node, Update{Type: KindLeave", "	}\n	r.update(by.Node, Update{Type: KindLeave", rules, ""},
	{"rules: data replace what was not expected", "room/data.go", `	if err := a.Expect.checkData(r, r.state.data.since(), "the data of room "+r.ID); err != nil {
		return 0, err
	}
`, "", rules, ""},
	{"rules: members set what only admins may", "room/data.go", "	if r.state.settings.Data != DataMembers {", "	if false {", rules, ""},
	{"rules: nobody follows a host who leaves", "room/host.go", "host == \"\" || !r.isMember(host)", "host == \"\"", rules, "TestHost"},
	{"rules: the clock of a node decides who has sat longest", "room/roster.go", "return max(by.At, m.newest+1)", "return by.At", rules, "TestHost_ClocksDiffer"},
	{"rules: a txn does not look whether somebody was faster", "room/txn.go", "	if err := a.Expect.checkPlay(r); err != nil {", "	if err := a.Expect.checkPlay(r); err != nil && false {", rules, "TestTxn"},
	{"rules: a txn goes on behind what was refused", "room/txn.go", "apply(r, rules, by); err != nil {", "apply(r, rules, by); err != nil && len(a.Actions) == 1 {", rules, "TestTxn"},
	{"rules: what is said to admins is said to all", "room/private.go", "len(c.To) == 0 && v.Authority", "len(c.To) == 0", rules, "TestTxn"},
	{"rules: a move ends private data", "room/group.go", "if m, ok := r.Member(user); ok && m.Private.String() != \"\" {", "if m, ok := r.Member(user); ok && false && m.Private.String() != \"\" {", rules, "TestReserve_Carried"},
	{"rules: who is moved brings data over those of the room", "room/group.go", " && (m.Reserved() || m.Private.String() == \"\")", "", rules, "TestReserve_Carried"},
	{"rules: players deal to themselves", "room/private.go", "		case r.state.settings.Data != DataMembers:", "		case false:", rules, "TestTxn"},
	{"rules: who was the host a moment ago still is", "room/host.go", "	if r.state.host != c.User {", "	if false {", rules, "TestHost"},
	{"rules: a version of another epoch is as good", "room/action.go", `return e.epoch == "" || e.epoch == r.Epoch && !r.Renewed()`, "return true", rules, ""},
	{"rules: a party is seated in part", "room/group.go", "	if free := all - r.Count(); wanted > max(free, 0) && !r.state.settings.Closed {", "	if free := all - r.Count(); wanted > free+wanted {", rules, ""},
	{"rules: a snapshot changes afterwards", "room/seats.go", "	if s.shared[i] {", "	if false {", rules, ""},
	{"rules: the evicted have left", "room/failure.go", "Seat: m.Seat, Reason: ReasonNode})", "Seat: m.Seat, Reason: ReasonLeft})", rules, ""},
	{"timers: one fires before it is due", "room/timer.go", "if !found || t.Due > a.Now {", "if !found {", rules, "TestTimer_"},
	{"timers: one replaces data that somebody has set since", "room/timer.go", "then.Data != nil && r.state.data.since() <= t.Version:", "then.Data != nil:", rules, "TestTimer_"},
	{"timers: an end leaves the others", "room/close.go", "		r.endTimer(KindCountdown, \"\", name)\n", "		_ = name\n", rules, "TestTimer_"},
	{"timers: members have authority", "room/timer.go", "		if a.Then.Close || a.Then.Kick != \"\" {\n			return 0, Forbid", "		if false {\n			return 0, Forbid", rules, "TestTimer_Who"},
	{"timers: what has fired is not missed", "room/txn.go", "e.checkData(r, r.Timers().since(), ", "e.checkData(r, 0, ", rules, "TestTimer_Expect"},
	{"swap: who is displaced loses the seat of the other", "room/roster.go", "		if m.seats.at(member.Seat) == user {", "		if true {", rules, "TestSwap"},
	{"swap: a seat is counted twice", "room/seats.go", "	if !s.has(seat) {\n		s.count++\n	}", "	s.count++", rules, "TestSwap_SeatsFitMembers"},
	{"shuffle: somebody keeps the seat", "room/swap.go", "	for keepsAny(order) {", "	for false {", rules, "TestShuffle"},

	{"commit: the mark is not looked at", "room/coordinator/internal/store/lua/room.lua", "(is[1] or '') == ARGV[at + 1] and ", "", "./room/coordinator", "TestCommit_OtherVersion"},
	{"commit: the incarnation is not looked at", "room/coordinator/internal/store/lua/room.lua", " or is[2] == '<incarnation>')", " or true)", "./room/coordinator", "TestIncarnation_OldCopy$"},
	{"commit: members are not counted", "room/coordinator/internal/store/lua/room.lua", " and there == tonumber(ARGV[at + 6])", "", "./room/coordinator", "TestRoom_NotWhole/by_an_action_that_changes_something"},
	{"commit: by:<node> is forgotten", "room/coordinator/internal/store/lua/room.lua", "'mark', ARGV[at + 10], ARGV[at + 2], ARGV[at])", "'mark', ARGV[at + 10])", "./room/coordinator", "TestCosts"},
	{"commit: an empty room stays for good", "room/coordinator/internal/store/lua/room.lua", "    redis.call('PEXPIRE', meta, idle)\n  elseif", "  elseif", "./room/coordinator", "TestRoom_EmptyExpires"},
	{"commit: a room that is used again expires", "room/coordinator/internal/store/lua/room.lua", "  elseif there == 0 then\n    redis.call('PERSIST', meta)\n", "", "./room/coordinator", "TestRoom_EmptyExpires|TestInvariants_WrongExpiry|TestSettings_Keep"},
	{"commit: nobody is told", "room/coordinator/internal/store/lua/room.lua", "local told = redis.pcall(ARGV[1], ARGV[at + 5], ARGV[at + 4])", "local told = 1", "./room/coordinator", "TestWatch_AllNodes"},
	{"commit: what came before is written again", "room/coordinator/internal/store/lua/commit.lua", "local before = is[3] == ARGV[5]\n", "local before = false\n", "./room/coordinator/internal/store", "TestAllOrders/replies_are_missing"},
	{"commit: others may wait", "room/coordinator/internal/store/lua/commit.lua", "known and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0", "known and redis.call('EXISTS', KEYS[1]) == 0", "./room/coordinator/internal/store", "TestAllOrders/a_client_of_the_lock_alone"},
	{"commit: another may have the lock", "room/coordinator/internal/store/lua/commit.lua", "known and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0", "known", "./room/coordinator/internal/store", "TestAllOrders/a_client_of_the_lock_alone"},
	{"commit: the hold may be over", "room/coordinator/internal/store/lua/commit.lua", "if not ttl and not lock_holds(1, ARGV[3]) then", "if false then", "./room/coordinator/internal/store", "TestAllOrders/a_hold_expires"},
	{"commit: keeps the lock", "room/coordinator/internal/store/lua/commit.lua", "held, position = release(1, next ~= '' and next, next_ttl ~= '' and next_ttl)", "held = false", "./room/coordinator/internal/store", "TestAllOrders/a_client_of_the_lock_alone"},
	{"commit: a node that was removed writes", "room/coordinator/internal/store/lua/commit.lua", "local writes, known = ARGV[9] ~= '', ARGV[4] == '' or is[3]", "local writes, known = ARGV[9] ~= '', true", "./room/coordinator", "TestCommit_NodeStoodStill"},
	{"move: its locks may be over", "room/coordinator/internal/store/lua/move.lua", "held = held and lock_holds(room.key, ARGV[room.token])", "held = true", "./room/coordinator", "TestMove_Stalls"},
	{"move: it is not known when it came before", "room/coordinator/internal/store/lua/move.lua", "if redis.call('HGET', meta, ARGV[at + 2]) ~= ARGV[at] then", "if true then", "./room/coordinator", "TestMove_ReplyLost|TestMove_ReplyAndTraceLost"},
	{"unregister: the record of a later commit", "room/coordinator/internal/store/lua/unregister.lua", "if state == 'gone' and at[4] and at[4] ~= ARGV[3] then", "if false then", "./room/coordinator", "TestRegistration_LateUnregister"},

	{"feed: a gap is not noticed", "room/coordinator/internal/feed/feed.go", "case order == room.OtherEpoch, e.From != f.at.Version:", "case order == room.OtherEpoch:", "./room/coordinator", "TestWatch_Gap"},
	{"feed: another epoch goes on", "room/coordinator/internal/feed/feed.go", "case order == room.OtherEpoch, e.From != f.at.Version:", "case order != room.OtherEpoch && e.From != f.at.Version:", "./room/coordinator", "TestWatch_NewEpoch|TestWatch_LateEventOfAnotherEpoch"},
	{"feed: an event that is known needs a snapshot", "room/coordinator/internal/feed/feed.go", "case order == room.Same, order == room.Earlier:", "case order == room.Earlier:", "./room/coordinator/internal/feed", "TestFeed_KnownEvents"},
	{"feed: a commit on another one is not noticed", "room/coordinator/internal/feed/feed.go", "case order == room.Forked, e.Forks(f.at):", "case order == room.Forked:", "./room/coordinator", "TestIncarnation_CommitBuildsOnAnother"},
	{"feed: what came during a snapshot is lost", "room/coordinator/internal/feed/feed.go", "		gap = f.receiveLocked(e, held.sizes[i]) || gap", "		_ = e", "./room/coordinator/internal/feed", "TestFeed"},
	{"feed: a room is shown in an epoch that is over", "room/coordinator/internal/feed/reread.go", "if r.Renewed() || f.hasLost(r.Position) {", "if false {", "./room/coordinator", "TestIncarnation_OldCopiesAgainAndAgain|TestWatch_NewEpoch|TestEpoch"},
}
