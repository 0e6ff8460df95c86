package lab

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

//go:embed lua/lua_setnx.lua
var luaSetnxLua string

var luaSetnxScript = redis.NewScript(luaSetnxLua)

// luaSetnx lets a script do SETNX, and EXPIRE 10 only if it took; DEL when done.
var luaSetnx = discipline{
	name:  "lua-setnx",
	about: "Lua: SETNX, and EXPIRE 10 if it took … DEL",
	ttl:   10,
	steps: lockSteps,
	way:   list{&luaSetnxLock},
	lock:  &luaSetnxLock,
	listed: []listed{
		{text: "DEL deletes someone else's lock after expiry", fault: pauseGiving, anomaly: anomaly.Deleted},
	},
}

var luaSetnxLock = lock{try: luaSetnxTry, unlock: del}

func luaSetnxTry(ctx context.Context, c *caller) (bool, error) {
	return luaSetnxScript.Run(ctx, c.process.rdb, []string{c.x.lockKey}, 1, c.millis(10)).Bool()
}
