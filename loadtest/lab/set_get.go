package lab

import (
	"context"
	"strconv"

	"roomd/loadtest/lab/anomaly"
)

// setGet is for stores without SETNX, as memcache was: set without a condition, get, and
// the caller that finds its own value has the lock. That notices only a caller that sets
// between another's set and get. Two that do so one after the other both hold the lock.
//
// The lab's choices: the value is a random number, drawn for each attempt; there
// is no expiry, because nobody is ever kept out; DEL when done.
var setGet = discipline{
	name:  "set-get",
	about: "SET a random value, GET, mine if it is still there … DEL",
	ttl:   10, // it has none; that of the others
	steps: lockSteps,
	way:   list{&setGetLock},
	lock:  &setGetLock,
	listed: []listed{
		{text: "two that set one after the other both hold it", fault: contention, anomaly: anomaly.TwoHolders},
		{text: "a holder keeps nobody out", fault: pauseWrite, anomaly: anomaly.TwoHolders},
	},
}

var setGetLock = lock{try: setGetTry, unlock: del}

func setGetTry(ctx context.Context, c *caller) (bool, error) {
	c.value = strconv.FormatUint(c.random.Uint64(), 10)
	if err := c.do(ctx, "SET", c.x.lockKey, c.value).Err(); err != nil {
		return false, err
	}
	held, _, err := c.look(ctx)
	return held == c.value, err
}
