package lab

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// timestampFirst is timestamp, but each turn tries SETNX first. So a caller who
// waits gets the lock when it goes away, and there are only two outcomes.
var timestampFirst = discipline{
	name:  "timestamp-first",
	about: "the same, each turn with SETNX first … TTL, DEL",
	ttl:   2,
	steps: with(stepSet, stepChecked, stepExpired),
	way:   list{&timestampFirstLock},
	lock:  &timestampFirstLock,
	listed: []listed{
		{text: "takeover race", fault: takeoverRace, anomaly: anomaly.TwoHolders},
		{text: "unlock deletes anyone's lock", fault: pauseGiving, anomaly: anomaly.Deleted},
		{text: "client clocks", fault: clockAhead, anomaly: anomaly.TwoHolders},
	},
}

var timestampFirstLock = lock{wait: timestampFirstWait, unlock: timestampUnlock}

func timestampFirstWait(ctx context.Context, c *caller) (outcome, error) {
	for end := time.Now().Add(c.seconds(timestampMax)); time.Now().Before(end); {
		if took, err := timestampSet(ctx, c); err != nil || took {
			return acquired, err
		}
		held, err := c.process.rdb.Get(ctx, c.x.lockKey).Result()
		switch {
		case errors.Is(err, redis.Nil): // gone since; the next turn sets it
		case err != nil:
			return timedOut, err
		default:
			if took, err := timestampTakeOver(ctx, c, held); err != nil || took {
				return acquired, err
			}
		}
		if err := c.pause(ctx, c.seconds(timestampPoll)); err != nil {
			return timedOut, err
		}
	}
	return timedOut, nil
}
