package main

const coordinators = "./room/coordinator"

// coordinatorMutants break a room's worker, and a node among the others.
var coordinatorMutants = []mutant{
	{"worker: a resend keeps its token after stale", "room/coordinator/commit.go", "			w.abandonCommit(c)\n			return at, nil, store.ErrLost", "			return at, nil, store.ErrLost", coordinators, "TestCommit_SentAgain"},
	{"worker: an unknown outcome is a refusal", "room/coordinator/commit.go", "room.ErrUnknown, why)", "room.ErrUnavailable, why)", coordinators, "TestCommit_UnknownOutcome"},
	{"worker: a commit is not sent again", "room/coordinator/commit.go", "	if !store.IsDecided(err) {", "	if false {", coordinators, "TestCommit_ExactlyOnce|TestHold_LostReply"},
	{"worker: a stale copy is kept", "room/coordinator/apply.go", "	w.copy.Room = now\n	w.ws.timers.Found(now)\n", "", coordinators, "TestHold_Stale$|TestCommit_OtherVersion"},
	{"worker: what was refused stays in the copy", "room/coordinator/apply.go", "		w.copy.Room.Revert()\n", "", coordinators, "TestGiveUp_BehindTheLock"},
	{"worker: two actions of a user share a commit", "room/coordinator/queue.go", "		if q.users[user] {\n			break\n		}\n", "", coordinators, "TestBatch_UserOnce"},
	{"worker: who gave up is served", "room/coordinator/queue.go", "	batch = slices.DeleteFunc(batch, func(r *request) bool { return r.gone })\n", "", coordinators, "TestGiveUp_WhileQueued"},
	{"worker: nobody hears that the room is busy", "room/coordinator/worker.go", "room.Refuse(room.ErrBusy, \"room %s is busy", "room.Refuse(room.ErrUnavailable, \"room %s is busy", coordinators, "TestDo_Busy"},
	{"worker: the lock is not left in the end", "room/coordinator/lock.go", "		w.held, w.inLine = false, false\n		w.slot.Abandon()", "		w.held, w.inLine = false, false", coordinators, "TestHold_StaysWithABusyNode|TestGiveUp_NobodyWaits"},
	{"move: a loss is not told from success", "room/coordinator/move_rooms.go", "	case err == nil && !last.hasRun(now):\n		return store.ErrLost\n", "", coordinators, "TestMove_RequestLost|TestMove_ReplyAndTraceLost|TestMove_Stalls"},
	{"move: a refused one shows what is lost", "room/coordinator/move_rooms.go", "	if !r.Renewed() { // else", "	if true { // else", coordinators, "TestIncarnation_OldCopy$"},
	{"read: the room of an epoch that is over", "room/coordinator/coordinator.go", "if err == nil && r.Renewed() { // not whole", "if false { // not whole", coordinators, "TestIncarnation_OldCopy$"},
	{"read: its watchers do not hear what it finds lost", "room/coordinator/coordinator.go", "	c.feeds.Compare(id, known, r.Position)\n", "	_ = known\n", coordinators, "TestEpoch_VersionGoesBack"},

	{"lease: goes on after its end", "room/coordinator/internal/cluster/lua/lease.lua", "if ARGV[6] ~= '' and (not beat or beat < tonumber(ARGV[6])) then", "if false then", coordinators, "TestLease_StalledNode|TestLease_ComesBackToLife|TestSim$"},
	{"lease: an old copy of it counts", "room/coordinator/internal/cluster/lua/lease.lua", "(not beat or beat < tonumber(ARGV[6]))", "not beat", coordinators, "TestLease_RestartFromASnapshot"},
	{"lease: a late request begins it again", "room/coordinator/internal/cluster/lua/lease.lua", "if not lease and redis.call('EXISTS', KEYS[4]) == 1 then", "if false then", coordinators, "TestLease_LateBeginning"},
	{"lease: that others have ended it is forgotten", "room/coordinator/internal/cluster/lua/lease_over.lua", "redis.call('SET', KEYS[2], '', 'PX', ARGV[2])\n", "", coordinators, "TestLease_LateBeginning"},
	{"lease: that the node has ended it is forgotten", "room/coordinator/internal/cluster/lua/lease_end.lua", "redis.pcall('SET', KEYS[5], '', 'PX', ARGV[4])\n", "", coordinators, "TestLease_LateBeginning"},
	{"lease: one that others have ended is not followed by another", "room/coordinator/internal/cluster/lease.go", "		if errors.Is(err, errLeaseOver) { // an", "		if false { // an", coordinators, "TestLease_FirstWasEnded"},
	{"lease: it is not in the list", "room/coordinator/internal/cluster/lua/lease.lua", "redis.call('ZADD', KEYS[3], t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2], ARGV[1])\n", "", coordinators, "TestEviction$"},
	{"lease: one that goes on is ended", "room/coordinator/internal/cluster/lua/lease_over.lua", "if lease and lease ~= ARGV[1] then", "if false then", coordinators, "TestLease_ProlongedAtTheLastMoment"},
	{"lease: counts from the reply", "room/coordinator/internal/cluster/lease.go", "	l.who, l.until = who, sent.Add(l.ttl)", "	l.who, l.until = who, time.Now().Add(l.ttl)", coordinators, "TestLease_CountsFromTheRequest"},
	{"lease: valid for ever by its own clock", "room/coordinator/internal/cluster/lease.go", "	return who, time.Now().Before(until)", "	return who, !until.IsZero()", coordinators, "TestLease_NoneNoCommit|TestLease_StalledNode|TestCommit_NodeStoodStill"},
	{"lease: is prolonged too seldom", "room/coordinator/internal/cluster/node.go", "pause.For(n.open, n.opts.Settings.NodeTTL/3)", "pause.For(n.open, 2*n.opts.Settings.NodeTTL)", coordinators, "TestEviction$|TestLease_StalledNode"},
	{"lease: sessions do not hear of a new name", "room/coordinator/internal/cluster/node.go", "			n.watchers.Rejoin()\n", "", coordinators, "TestLease_StalledNode|TestLease_JoinUnderANewName"},
	{"registration: a late record counts", "room/coordinator/internal/cluster/lua/lease_rooms.lua", "if lease and beat > ours or not lease and ARGV[1] == 'add' then", "if not lease and ARGV[1] == 'add' then", coordinators, "TestRegistration_LateRecord|TestRegistration_LateRemoval"},
	{"registration: rooms are not recorded", "room/coordinator/internal/cluster/lua/lease_rooms.lua", "  redis.call('SADD', KEYS[2], unpack(ARGV, 3))", "  redis.call('SCARD', KEYS[2])", coordinators, "TestEviction$"},
	{"registration: records never go", "room/coordinator/internal/cluster/lua/lease_rooms.lua", "  redis.call('SREM', KEYS[2], unpack(ARGV, 3))", "  redis.call('SCARD', KEYS[2])", coordinators, "TestRegistration_LongLife"},
	{"registration: records go while they are used", "room/coordinator/internal/cluster/registration.go", "	if all.users[id] > 0 || all.gone[id] != nil {", "	if all.gone[id] != nil {", coordinators, "TestRegistration_InUse"},
	{"registration: a room of which a part is lost is believed", "room/coordinator/internal/cluster/registration.go", "	if err == nil && !seen.Whole {", "	if false {", coordinators, "TestRegistration_QuietRoomIsPutRight"},
	{"eviction: without the grace", "room/coordinator/internal/cluster/sightings.go", "	return s.since.Add(s.ttl + s.grace)", "	return s.since.Add(s.ttl)", coordinators, "TestEviction$"},
	{"eviction: by the first look after an outage", "room/coordinator/internal/cluster/sightings.go", "		} else if blind && !s.shown {", "		} else if blind && false {", coordinators, "TestEviction_Outage"},
	{"eviction: nobody is shown as away", "room/coordinator/internal/cluster/eviction.go", "		if m.Node == node && !m.Detached() {", "		if false && m.Node == node {", coordinators, "TestEviction$"},
	{"eviction: the node is forgotten before its members are gone", "room/coordinator/internal/cluster/eviction.go", "	if err != nil {\n		return err\n	}\n	forgetting,", "	forgetting,", coordinators, "TestEviction_OneRoomFails"},
	{"settings: shared ones are not compared", "room/coordinator/internal/cluster/sightings.go", "				v.peers.met(node, l)\n", "				_ = l.Address\n", coordinators, "TestNodes_OtherSettingsAreLogged"},
}
