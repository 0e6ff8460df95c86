package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// timestamp keeps in the lock until when its holder may have it, by the holder's
// clock: "<seconds>:<random>". SETNX, then EXPIRE 2. Who finds it held looks every
// 0.1 s, for at most 5 s: if it is gone, that is an outcome of its own; if its
// time is past, it is overwritten with SETEX, and a second GET compares who has
// overwritten it last. To give it back: DEL if its TTL is not 0.
var timestamp = discipline{
	name:  "timestamp",
	about: "SETNX <expiry>:<random>, EXPIRE 2; past its time SETEX, GET, compare … TTL, DEL",
	ttl:   2,
	steps: with(stepSet, stepChecked, stepExpired),
	way:   list{&timestampLock},
	lock:  &timestampLock,
	listed: []listed{
		{text: "takeover race", fault: takeoverRace, anomaly: anomaly.TwoHolders},
		{text: "unlock deletes anyone's lock", fault: pauseGiving, anomaly: anomaly.Deleted},
		{text: "client clocks", fault: clockAhead, anomaly: anomaly.TwoHolders},
	},
}

var timestampLock = lock{wait: timestampWait, unlock: timestampUnlock}

// The published numbers, in seconds.
const (
	timestampTTL  = 2
	timestampMax  = 5
	timestampPoll = 0.1
)

func timestampWait(ctx context.Context, c *caller) (outcome, error) {
	if took, err := timestampSet(ctx, c); err != nil || took {
		return acquired, err
	}
	for end := time.Now().Add(c.seconds(timestampMax)); time.Now().Before(end); {
		held, err := c.process.rdb.Get(ctx, c.x.lockKey).Result()
		switch {
		case errors.Is(err, redis.Nil):
			return vanished, nil
		case err != nil:
			return timedOut, err
		}
		if took, err := timestampTakeOver(ctx, c, held); err != nil || took {
			return acquired, err
		}
		if err := c.pause(ctx, c.seconds(timestampPoll)); err != nil {
			return timedOut, err
		}
	}
	return timedOut, nil
}

// timestampSet is SETNX, then EXPIRE.
func timestampSet(ctx context.Context, c *caller) (bool, error) {
	c.value = timestampValue(c)
	took, err := c.process.rdb.Do(ctx, "SETNX", c.x.lockKey, c.value).Bool()
	if err != nil || !took {
		return false, err
	}
	c.at(stepSet)
	return true, c.process.rdb.Do(ctx, "PEXPIRE", c.x.lockKey, c.millis(timestampTTL)).Err()
}

// timestampTakeOver takes the lock from a holder whose time is past: SETEX, and a
// second GET. Two who do so one after the other both find their own value.
func timestampTakeOver(ctx context.Context, c *caller, held string) (bool, error) {
	until, _, _ := strings.Cut(held, ":")
	if end, err := strconv.ParseInt(until, 10, 64); err == nil && end >= c.now() {
		return false, nil
	}
	c.at(stepExpired)
	c.value = timestampValue(c)
	if err := c.process.rdb.Do(ctx, "PSETEX", c.x.lockKey, c.millis(timestampTTL), c.value).Err(); err != nil {
		return false, err
	}
	now, err := c.process.rdb.Get(ctx, c.x.lockKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, err
	}
	return now == c.value, nil
}

func timestampValue(c *caller) string {
	return fmt.Sprintf("%d:%d", c.now()+timestampTTL, c.random.Uint32())
}

// timestampUnlock deletes a lock that has any time left, whoever's it is.
func timestampUnlock(ctx context.Context, c *caller) error {
	left, err := c.process.rdb.Do(ctx, "PTTL", c.x.lockKey).Int64()
	if err != nil || left == 0 {
		return err
	}
	c.at(stepChecked)
	return del(ctx, c)
}
