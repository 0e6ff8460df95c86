package lab

import (
	"context"

	"roomd/loadtest/lab/anomaly"
)

// hsetnx keeps all locks in one hash, with a field for each: HSETNX, and HDEL when done.
// A field has no expiry, so a dead holder's lock stays.
//
// It is published by name only. The lab's choice: the value is 1.
var hsetnx = discipline{
	name:   "hsetnx",
	about:  "HSETNX locks key 1 … HDEL",
	ttl:    10, // it has none; that of the others
	steps:  lockSteps,
	inHash: true,
	way:    list{&hsetnxLock},
	lock:   &hsetnxLock,
	listed: []listed{
		{text: "a crashed holder blocks for ever", fault: crashLocked, anomaly: anomaly.Stuck, forever: true},
	},
}

var hsetnxLock = lock{try: hsetnxTry, unlock: hsetnxUnlock}

func hsetnxTry(ctx context.Context, c *caller) (bool, error) {
	return c.do(ctx, "HSETNX", c.x.hashKey, c.x.lockKey, 1).Bool()
}

func hsetnxUnlock(ctx context.Context, c *caller) error {
	return c.do(ctx, "HDEL", c.x.hashKey, c.x.lockKey).Err()
}
