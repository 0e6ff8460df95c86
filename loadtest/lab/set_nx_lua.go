package lab

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

//go:embed lua/compare_del.lua
var compareDelLua string

var compareDelScript = redis.NewScript(compareDelLua)

// setNXLua is the card game's: SET NX EX 3 with the room's id and a unique id as
// value, a spin with sleeps of 5 ms, and a script that deletes the lock if the
// value is the caller's. The lock is right. But nothing stops who has had it
// from writing after its time.
var setNXLua = discipline{
	name:  "set-nx-lua",
	about: "SET NX EX 3 with room id + unique id, spin 5 ms … Lua: DEL if the value is mine",
	ttl:   3,
	steps: lockSteps,
	way:   list{&setNXLuaLock},
	lock:  &setNXLuaLock,
	listed: []listed{
		{text: "a holder past the TTL still writes", fault: pauseWrite, anomaly: anomaly.Lost},
	},
}

var setNXLuaLock = lock{wait: setNXLuaWait, unlock: setNXLuaUnlock}

func setNXLuaWait(ctx context.Context, c *caller) (outcome, error) {
	c.value = fmt.Sprintf("%s%016x", c.x.id, c.random.Uint64())
	for {
		took, err := c.process.rdb.SetNX(ctx, c.x.lockKey, c.value, c.seconds(3)).Result()
		if err != nil || took {
			return acquired, err
		}
		if err := c.pause(ctx, spinPause); err != nil {
			return timedOut, err
		}
	}
}

func setNXLuaUnlock(ctx context.Context, c *caller) error {
	return compareDelScript.Run(ctx, c.process.rdb, []string{c.x.lockKey}, c.value).Err()
}
