package lab

import (
	"context"

	"roomd/loadtest/lab/anomaly"
)

// setNXDel takes the lock with one command, SET NX EX 10. DEL when done.
var setNXDel = discipline{
	name:  "set-nx-del",
	about: "SET NX EX 10 … DEL",
	ttl:   10,
	steps: lockSteps,
	way:   list{&setNXDelLock},
	lock:  &setNXDelLock,
	listed: []listed{
		{text: "DEL deletes somebody else's lock after expiry", fault: pauseGiving, anomaly: anomaly.Deleted},
	},
}

var setNXDelLock = lock{try: setNXDelTry, unlock: del}

func setNXDelTry(ctx context.Context, c *caller) (bool, error) {
	return c.took(ctx, "SET", c.x.lockKey, 1, "NX", "EX", seconds(10))
}
