package lab

import (
	"context"

	"roomd/loadtest/lab/anomaly"
)

// setRandLua is SET NX EX 10 with a token, a random number from 1 to 100,000, and the
// script that deletes the lock if it has the token. One stale holder in 100,000 finds its
// token in somebody else's lock. As with set-nx-lua, nothing keeps a former holder from
// writing after its time.
//
// The lab's choice: each attempt draws a new number, because an attempt is a call.
var setRandLua = discipline{
	name:  "set-rand-lua",
	about: "SET NX EX 10 with a random number up to 100,000 … Lua: DEL if the value is mine",
	ttl:   10,
	steps: with(stepDrawn),
	way:   list{&setRandLuaLock},
	lock:  &setRandLuaLock,
	listed: []listed{
		{text: "tokens collide: a stale holder deletes a lock that is not its own", fault: sameToken, anomaly: anomaly.Deleted},
		{text: "a holder past the TTL still writes", fault: pauseWrite, anomaly: anomaly.Lost},
	},
}

var setRandLuaLock = lock{try: setRandLuaTry, unlock: compareDel}

func setRandLuaTry(ctx context.Context, c *caller) (bool, error) {
	c.value = c.number(1, 100_000)
	c.at(stepDrawn)
	return c.took(ctx, "SET", c.x.lockKey, c.value, "NX", "EX", seconds(10))
}
