package lab

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"roomd/loadtest/lab/anomaly"
)

//go:embed lua/compare_del.lua
var compareDelLua string

// setNXLua is the lock of the card game: SET NX EX 3 with the room's id and a unique id
// as value, a spin with sleeps of 5 ms, and a script that deletes the lock if the value
// is the caller's. The lock is right, but nothing keeps a former holder from writing
// after its time.
//
// The lab's choice: the endless loop ends when the player has lost patience.
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

var setNXLuaLock = lock{wait: setNXLuaWait, unlock: compareDel}

func setNXLuaWait(ctx context.Context, c *caller) (outcome, error) {
	c.value = c.x.id + uniqid()
	for {
		took, err := c.took(ctx, "SET", c.x.lockKey, c.value, "NX", "EX", seconds(3))
		if err != nil || took {
			return acquired, err
		}
		if err := c.pause(ctx, spinPause); err != nil {
			return timedOut, err
		}
	}
}

// compareDel releases the lock with a script if it has the caller's value.
func compareDel(ctx context.Context, c *caller) error {
	return c.do(ctx, "EVAL", compareDelLua, 1, c.x.lockKey, c.value).Err()
}

// uniqid is PHP's: the time in microseconds, in 13 hexadecimal digits.
func uniqid() string {
	now := time.Now()
	return fmt.Sprintf("%08x%05x", now.Unix(), now.Nanosecond()/1000)
}
