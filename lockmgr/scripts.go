package lockmgr

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// Lua defines the functions that take, check, extend and give back a lock
// (lock_take, lock_holds, lock_extend, lock_give; see lua/lock.lua). Put it in
// front of a script of your own to check the token in the same step as a write:
//
//	guarded := redis.NewScript(lockmgr.Lua + `
//	  if not lock_holds(KEYS[1], ARGV[1]) then return 0 end
//	  redis.call('SET', KEYS[2], ARGV[2])
//	  lock_give(KEYS[1], ARGV[1])
//	  return 1`)
//
// On Redis Cluster the lock's key and the guarded keys must share a hash tag.
//
//go:embed lua/lock.lua
var Lua string

var (
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/extend.lua
	extendLua string
	//go:embed lua/release.lua
	releaseLua string
)

var (
	acquireScript = redis.NewScript(Lua + acquireLua)
	extendScript  = redis.NewScript(Lua + extendLua)
	releaseScript = redis.NewScript(Lua + releaseLua)
)
