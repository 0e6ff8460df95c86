package lab

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// getCompareDel writes a random value with SET NX EX 10. To give the lock back it
// GETs the value, compares it in the client, and DELs if it is its own.
var getCompareDel = discipline{
	name:  "get-compare-del",
	about: "SET NX EX 10 with a random value … GET, compare, DEL",
	ttl:   10,
	steps: with(stepChecked),
	way:   list{&getCompareDelLock},
	lock:  &getCompareDelLock,
	listed: []listed{
		{text: "expiry between GET and DEL deletes someone else's lock", fault: pauseChecked, anomaly: anomaly.Deleted},
	},
}

var getCompareDelLock = lock{try: getCompareDelTry, unlock: getCompareDelUnlock}

func getCompareDelTry(ctx context.Context, c *caller) (bool, error) {
	c.value = strconv.FormatUint(c.random.Uint64(), 10)
	return c.process.rdb.SetNX(ctx, c.x.lockKey, c.value, c.seconds(10)).Result()
}

func getCompareDelUnlock(ctx context.Context, c *caller) error {
	held, err := c.process.rdb.Get(ctx, c.x.lockKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if held != c.value {
		return nil
	}
	c.at(stepChecked)
	return del(ctx, c)
}
