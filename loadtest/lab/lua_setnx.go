package lab

import (
	"context"
	_ "embed"

	"roomd/loadtest/lab/anomaly"
)

//go:embed lua/lua_setnx.lua
var luaSetnxLua string

// luaSetnx runs SETNX in a script, and EXPIRE 10 only if that set the lock. DEL when
// done.
//
// The lab's choices: the ttl, a variable there, is 10; the value is 1.
var luaSetnx = discipline{
	name:  "lua-setnx",
	about: "Lua: SETNX, and EXPIRE 10 if it took … DEL",
	ttl:   10,
	steps: lockSteps,
	way:   list{&luaSetnxLock},
	lock:  &luaSetnxLock,
	listed: []listed{
		{text: "DEL deletes somebody else's lock after expiry", fault: pauseGiving, anomaly: anomaly.Deleted},
	},
}

var luaSetnxLock = lock{try: luaSetnxTry, unlock: del}

func luaSetnxTry(ctx context.Context, c *caller) (bool, error) {
	return c.do(ctx, "EVAL", luaSetnxLua, 1, c.x.lockKey, 1, seconds(10)).Bool()
}
