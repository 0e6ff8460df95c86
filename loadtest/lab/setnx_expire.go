package lab

import (
	"context"

	"roomd/loadtest/lab/anomaly"
)

// setnxExpire sets the lock's time to live with a second command: SETNX, then EXPIRE 10.
// DEL when done.
var setnxExpire = discipline{
	name:  "setnx-expire",
	about: "SETNX, then EXPIRE 10 … DEL",
	ttl:   10,
	steps: with(stepSet),
	way:   list{&setnxExpireLock},
	lock:  &setnxExpireLock,
	listed: []listed{
		{text: "a crash between the two blocks for ever", fault: crashSet, anomaly: anomaly.Stuck, forever: true},
		{text: "a long pause between the two blocks as long as it lasts", fault: pauseSet, anomaly: anomaly.Stuck},
		{text: "DEL deletes somebody else's lock", fault: pauseGiving, anomaly: anomaly.Deleted},
	},
}

var setnxExpireLock = lock{try: setnxExpireTry, unlock: del}

func setnxExpireTry(ctx context.Context, c *caller) (bool, error) {
	took, err := c.do(ctx, "SETNX", c.x.lockKey, 1).Bool()
	if err != nil || !took {
		return false, err
	}
	c.at(stepSet)
	return true, c.do(ctx, "EXPIRE", c.x.lockKey, seconds(10)).Err()
}
