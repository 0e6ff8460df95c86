package lab

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// timestampRelease is SET NX PX with the time of its expiry as value. Its release
// deletes the lock if that time is not after now plus the TTL: which is so for
// every lock that was ever set, anybody's.
var timestampRelease = discipline{
	name:  "timestamp-release",
	about: "SET NX PX with a time as value … GET, DEL if it is not after now + TTL",
	ttl:   3,
	steps: with(stepChecked),
	way:   list{&timestampReleaseLock},
	lock:  &timestampReleaseLock,
	listed: []listed{
		{text: "the comparison is always true: deletes anyone's lock", fault: pauseGiving, anomaly: anomaly.Deleted},
	},
}

var timestampReleaseLock = lock{try: timestampReleaseTry, unlock: timestampReleaseUnlock}

func timestampReleaseTry(ctx context.Context, c *caller) (bool, error) {
	ttl := c.seconds(3)
	return c.process.rdb.SetNX(ctx, c.x.lockKey, time.Now().Add(ttl).UnixMilli(), ttl).Result()
}

func timestampReleaseUnlock(ctx context.Context, c *caller) error {
	stored, err := c.process.rdb.Get(ctx, c.x.lockKey).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if stored > time.Now().Add(c.seconds(3)).UnixMilli() {
		return nil
	}
	c.at(stepChecked)
	return del(ctx, c)
}
