package main

const (
	lockLua = "lockmgr/lua/lock.lua"
	lockmgr = "./lockmgr"
)

// lockMutants break the lock: its scripts, and the Go code around them.
var lockMutants = []mutant{
	{"lock: gives it back unconditionally", "lockmgr/lua/release.lua", "if not lock_holds(1, ARGV[3]) then", "if false then", lockmgr, "TestReleaseAgainAfterAHandoff|TestOnlyTheWholeTokenCounts"},
	{"lock: leaving gives it back unconditionally", lockLua, "  if not lock_holds(at, token) then\n    return false\n  end\n  lock_release(at)", "  lock_release(at)", lockmgr, "TestAcquireAllOrNone|TestGivingUp"},
	{"lock: prolongs a hold that is another's", lockLua, "  return lock_holds(at, token) and redis.call('PEXPIRE', KEYS[at], ttl) == 1", "  return redis.call('PEXPIRE', KEYS[at], ttl) == 1", lockmgr, "TestWatchdog|TestExpiredAndGoneIsLost|TestDoTellsALostLock|TestOnlyTheWholeTokenCounts"},
	{"lock: compares the beginning of the token", lockLua, "  return redis.call('GET', KEYS[at]) == token", "  return string.sub(redis.call('GET', KEYS[at]) or '', 1, 4) == string.sub(token, 1, 4)", lockmgr, "TestOnlyTheWholeTokenCounts"},
	{"lock: a number is drawn twice", lockLua, "if last and last >= number then", "if false then", lockmgr, "TestFencesGrow$|TestAClockThatStepsBack"},
	{"lock: whoever comes takes it from those who wait", lockLua, "if not holder and (not head or head == token) then", "if not holder then", lockmgr, "TestModel|TestNobodyPassesTheQueue"},
	{"lock: a waiter waits twice", lockLua, "  elseif not position then\n    position", "  else\n    position", lockmgr, "TestALongWaitKeepsItsPlace|TestFirstComeFirstServedAcrossNodes"},
	{"lock: an offer lasts for a whole hold", lockLua, "    redis.call('SET', key, head, 'PX', ARGV[2])", "    redis.call('SET', key, head, 'PX', 600000)", lockmgr, "TestADeadWaiterCostsOneClaim"},
	{"lock: no wake-up is sent", lockLua, "    redis.pcall(ARGV[1], key .. ':Wake:'", "    redis.pcall('ECHO', key .. ':Wake:'", lockmgr, "TestWakeUpsAfterAFailedSubscribe"},
	{"lock: the queue has no end", lockLua, "    redis.call('PEXPIRE', queue, 60000)\n", "", "./room/coordinator/internal/store", "TestAllOrders/replies_are_missing"},
	{"lock: what was asked twice is not buried", lockLua, "  lock_bury(at, token)\n  if lock_holds(at, token) then\n    redis.call('ZREM', queue, heir)", "  if lock_holds(at, token) then\n    redis.call('ZREM', queue, heir)", lockmgr, "TestALateRequestRevivesNothing|TestWaitingForAHoldWithAnotherToken"},
	{"lock: acquires any number at once", "lockmgr/all.go", "if len(names) > maxNames {", "if false {", lockmgr, "TestBadInput"},
	{"lock: a hold's context needs a parent", "lockmgr/lock.go", "		cancelCause(errNilContext)\n", "		cancelCause(nil)\n", lockmgr, "TestNilContexts"},
	{"cachefill: a nil value is nil to its loader only", "lockmgr/cachefill/fill.go", "		value = []byte{} // as others will read it", "		value = nil", "./lockmgr/cachefill", "TestANilValueIsEmpty"},
	{"lock: a script drops functions by their names", "lockmgr/scripts.go", "MustCompile(`\\b[A-Za-z_]\\w*`)", "MustCompile(`\\b[a-z]+_\\w+`)", lockmgr, "TestScripts_NoFunctionIsDropped"},
	{"lock: a script drops what is no function", "lockmgr/scripts.go", "	if rest != \"\" {", "	if false {", lockmgr, "TestScripts_NoFunctionIsDropped"},
	{"lock: an inherited hold has no end", lockLua, "redis.call('SET', key, heir, 'KEEPTTL')", "redis.call('SET', key, heir)", lockmgr, "TestInherit"},
	{"lock: no position is inherited", lockLua, "    redis.call('ZADD', queue, 'LT', position, heir)", "    redis.call('ZADD', queue, 'NX', position, heir)", lockmgr, "TestInherit"},
	{"lock: takes one of several", "lockmgr/lua/all.lua", "  if not lock_open(3 * (i - 4) + 1, ARGV[i]) then", "  if i == 4 and not lock_open(3 * (i - 4) + 1, ARGV[i]) then", lockmgr, "TestAcquireAllOrNone|TestAcquireAllNeverDeadlocks"},
	{"lock: the deadline after Extend counts from the reply", "lockmgr/extend.go", "l.deadline, l.unanswered = sent.Add(l.ttl), false", "l.deadline, l.unanswered = sent.Add(time.Since(sent)+l.ttl), false", lockmgr, "TestTheDeadlineCountsFromTheExtensionsRequest"},
	{"lock: only a lone request goes by itself", "lockmgr/pipeline.go", "s.underway.Add(1) <= maxDirect", "s.underway.Add(1) <= 1", lockmgr, "TestPipelined_AFewGoAlone"},
	{"lock: no request shares a round trip", "lockmgr/pipeline.go", "s.underway.Add(1) <= maxDirect", "s.underway.Add(1) > 0", lockmgr, "TestPipelined_AFewGoAlone"},
	{"lock: believes in a hold after its deadline", "lockmgr/lock.go", "deadline: g.since.Add(g.lasts)}", "deadline: g.since.Add(g.lasts + time.Second)}", lockmgr, "TestAnAnswerAfterTheDeadlineIsNoTheft"},
	{"lock: an extension without an answer leaves a deadline behind the end of the key", "lockmgr/extend.go", "	l.shortenLocked(sent.Add(l.ttl))\n", "", lockmgr, "TestExtensionShorterThanTheClaim"},
	{"lock: Done does not hear that the deadline is earlier", "lockmgr/extend.go", "		l.expiry.Reset(time.Until(end))\n", "", lockmgr, "TestExtensionShorterThanTheClaim"},
	{"lock: Extend does not say that the hold is lost", "lockmgr/extend.go", "	if err == nil && !extended {\n		l.stolenLocked()\n	}\n", "	_ = extended\n", lockmgr, "TestLocksReleaseAllTheSame|TestDoTellsALostLock$"},
	{"lock: KeepAlive begins at the end", "lockmgr/extend.go", "l.next = time.AfterFunc(l.ttl/3, l.extendInTime)", "l.next = time.AfterFunc(2*l.ttl, l.extendInTime)", lockmgr, "TestWatchdog"},
	{"lock: a request is sent twice under one token", "lockmgr/tokens.go", "		t.current = t.names.newToken(t.name)\n	}\n	t.underway = true", "	}\n	t.underway = true", lockmgr, "TestALateRequestRevivesNothing|TestWaitingForAHoldWithAnotherToken|TestLostReplies"},
	{"lock: takes a grant that is over", "lockmgr/wait.go", "return g.fence > s.position && !g.isOver() && (", "return (", lockmgr, "TestAWakeUpOfAnEarlierPlace|TestALateReplyAndAWakeUpInTime|TestAReplyLaterThanTheTTL"},
	{"lock: a waiter that gives up stays in the queue", "lockmgr/wait.go", "		_ = m.sender.run(ctx, abandonScript, m.names.together(attempts), args...).Err()", "		_, _ = ctx, args", lockmgr, "TestGivingUp$|TestCancelledAcquireLeavesNothing"},
	{"lock: several locks are released one by one", "lockmgr/all.go", "tag := s.m.names.slotTag(lock.name)", "tag := lock.name", lockmgr, "TestLocksReleaseTogether"},
	{"lock: locks of several slots are released one after the other", "lockmgr/all.go", "s.m.askRelease(ctx, request, len(byTag) == 1)", "s.m.askRelease(ctx, request, true)", lockmgr, "TestLocksReleaseTogether"},
	{"lock: a lock that cannot be released keeps others from it", "lockmgr/lua/release_all.lua", "passed, reply = pcall(lock_pass, i - 2,", "passed, reply = true, lock_pass(i - 2,", lockmgr, "TestLocksReleaseEachToItsNext"},
	{"lock: Do waits for its release beyond its context", "lockmgr/lock.go", "context.WithTimeout(ctx, cleanupTimeout)", "context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)", lockmgr, "TestCallsEndInTime"},
	{"lock: Extend waits for the watchdog's beyond its context", "lockmgr/extend.go", "		l.awaitExtensionLocked(ctx)", "		l.awaitExtensionLocked(context.Background())", lockmgr, "TestCallsEndInTime"},
	{"lock: of several locks asked for twice one is inherited", "lockmgr/slot.go", "all := append([]attempt{{s.on.only(lockKeys), t}}, others...)", "all := []attempt{{s.on.only(lockKeys), t}}", lockmgr, "TestAcquireAllAsksAgain"},
	{"lock: AcquireAll leaves what an earlier sending got", "lockmgr/all.go", "if err != nil || len(fences) == 0 && first.Token() != token {", "if _ = token; err != nil {", lockmgr, "TestAcquireAllLosesOneMeanwhile"},
	{"lock: an answer with a hold leaves an earlier claim usable", "lockmgr/acquire.go", "	w.queuedAt(token, parseNumber(fence), sent, 0)\n", "", lockmgr, "TestAskShorterThanTheClaim"},
	{"lock: a claim counts from the answer", "lockmgr/wait.go", "s.position, s.waited, s.trip = position, sent, took", "s.position, s.waited, s.trip = position, sent.Add(took), took", lockmgr, "TestAClaimCountsFromTheRequest"},
	{"lock: a promise never ends", "lockmgr/release.go", "		next.tokens.promise(false) // another", "		_ = named // another", lockmgr, "TestAPromiseEndsWithItsAnswer"},
	{"lock: a redirection counts as doubt", "lockmgr/tokens.go", "			t.underway = false\n		}", "		}", lockmgr, "TestTokensOfASecondSending"},
	{"lock: AcquireAll does not extend a claim", "lockmgr/all.go", "if time.Until(lock.Deadline()) < lock.ttl/2 {", "if false {", lockmgr, "TestAcquireAllExtendsAClaim"},
	{"lock: a look prolongs the claim", "lockmgr/wait.go", "	ours = err == nil && holder == s.Token()\n", "	ours = err == nil && holder == s.Token()\n	s.queuedAt(s.Token(), s.position, time.Now(), s.trip)\n", lockmgr, "TestALookDoesNotProlongTheClaim"},
	{"lock: a release is not told that the hold was stolen", "lockmgr/release.go", "		l.over = ErrStolen // it was over before it was released", "		_ = ErrStolen", lockmgr, "TestExpiredAndGoneIsLost|TestDoTellsALostLock$|TestOnlyTheWholeTokenCounts"},
}
