package lab

import (
	"context"

	"roomd/loadtest/lab/anomaly"
)

// incr counts: INCR, and the caller that gets 1 has the lock and sets its time to live
// with EXPIRE. The others only add to the count. DEL when done.
//
// It is published by name only. The lab's choice: EXPIRE 10, as with setnx-expire.
var incr = discipline{
	name:   "incr",
	about:  "INCR, mine if it is 1, then EXPIRE 10 … DEL",
	ttl:    10,
	steps:  with(stepSet),
	counts: true,
	way:    list{&incrLock},
	lock:   &incrLock,
	listed: []listed{
		{text: "a crash before EXPIRE blocks for ever", fault: crashSet, anomaly: anomaly.Stuck, forever: true},
		{text: "a long pause before EXPIRE blocks as long as it lasts", fault: pauseSet, anomaly: anomaly.Stuck},
		{text: "DEL deletes somebody else's lock", fault: pauseGiving, anomaly: anomaly.Deleted},
	},
}

var incrLock = lock{try: incrTry, unlock: del}

func incrTry(ctx context.Context, c *caller) (bool, error) {
	n, err := c.do(ctx, "INCR", c.x.lockKey).Int64()
	if err != nil || n != 1 {
		return false, err
	}
	c.at(stepSet)
	return true, c.do(ctx, "EXPIRE", c.x.lockKey, seconds(10)).Err()
}
