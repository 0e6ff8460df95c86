package lab

import (
	"context"
	"strconv"

	"roomd/loadtest/lab/anomaly"
)

// getCompareDel writes a random value with SET NX EX 10. To release the lock it GETs the
// value, compares it in the client, and DELs if it is its own.
//
// The lab's choices: the ttl, a variable there, is 10; each attempt draws a new value,
// because an attempt is a call.
var getCompareDel = discipline{
	name:  "get-compare-del",
	about: "SET NX EX 10 with a random value … GET, compare, DEL",
	ttl:   10,
	steps: with(stepChecked),
	way:   list{&getCompareDelLock},
	lock:  &getCompareDelLock,
	listed: []listed{
		{text: "expiry between GET and DEL deletes somebody else's lock", fault: pauseChecked, anomaly: anomaly.Deleted},
	},
}

var getCompareDelLock = lock{try: getCompareDelTry, unlock: getCompareDelUnlock}

func getCompareDelTry(ctx context.Context, c *caller) (bool, error) {
	c.value = strconv.FormatUint(c.random.Uint64(), 10)
	return c.took(ctx, "SET", c.x.lockKey, c.value, "NX", "EX", seconds(10))
}

func getCompareDelUnlock(ctx context.Context, c *caller) error {
	held, _, err := c.look(ctx)
	if err != nil || held != c.value {
		return err
	}
	c.at(stepChecked)
	return del(ctx, c)
}
