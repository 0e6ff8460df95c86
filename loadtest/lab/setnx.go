package lab

import (
	"context"

	"roomd/loadtest/lab/anomaly"
)

// setnx is the simplest lock: SETNX key value, and DEL when done.
//
// The lab's choice: the value is 1.
var setnx = discipline{
	name:  "setnx",
	about: "SETNX key 1 … DEL",
	ttl:   10, // it has none; that of the others
	steps: lockSteps,
	way:   list{&setnxLock},
	lock:  &setnxLock,
	listed: []listed{
		{text: "a crashed holder blocks for ever", fault: crashLocked, anomaly: anomaly.Stuck, forever: true},
	},
}

var setnxLock = lock{try: setnxTry, unlock: del}

func setnxTry(ctx context.Context, c *caller) (bool, error) {
	return c.do(ctx, "SETNX", c.x.lockKey, 1).Bool()
}

// del releases the lock as most disciplines do, whoever holds it by now.
func del(ctx context.Context, c *caller) error {
	return c.do(ctx, "DEL", c.x.lockKey).Err()
}
