package lockmgr

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// Lua defines the functions by which scripts take, check, extend and give back a
// lock; see lua/lock.lua. Put it in front of a script of your own to check the
// token in the same step as a write, and run it with [Manager.Run]:
//
//	guarded := redis.NewScript(lockmgr.Lua + `
//	  local lock = lock_at(1, ARGV[1], ARGV[2])
//	  if not lock_holds(lock, ARGV[3]) then return 0 end
//	  redis.call('SET', KEYS[4], ARGV[4])
//	  lock_give(lock, ARGV[3])
//	  return 1`)
//
//	locks.Run(ctx, guarded, name, []string{"score"}, lock.Token(), 21)
//
// A script that gives the lock back this way ends the hold: call [Lock.Given]
// instead of Release. One that finds the token gone calls [Lock.WriteRefused].
//
// On Redis Cluster the lock's keys and the guarded keys must share a hash tag:
// [Manager.Keys] puts {name} into the lock's.
//
//go:embed lua/lock.lua
var Lua string

var (
	//go:embed lua/acquire_quiet.lua
	acquireQuietLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/extend.lua
	extendLua string
	//go:embed lua/release_quiet.lua
	releaseQuietLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/give_quiet.lua
	giveQuietLua string
	//go:embed lua/leave.lua
	leaveLua string
)

var (
	acquireScript = redis.NewScript(acquireQuietLua + Lua + acquireLua)
	extendScript  = redis.NewScript(Lua + extendLua)
	releaseScript = redis.NewScript(releaseQuietLua + Lua + releaseLua)
	giveScript    = redis.NewScript(giveQuietLua)
	leaveScript   = redis.NewScript(Lua + leaveLua)
)
