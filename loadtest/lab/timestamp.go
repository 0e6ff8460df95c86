package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"roomd/loadtest/lab/anomaly"
)

// timestamp keeps the end of the hold in the lock, by the holder's clock:
// "<seconds>:<number>". A caller GETs it every 0.1 s, for at most 5 s. If there is no
// lock at the first GET, it sends SETNX and EXPIRE 2; at a later one it ends with an
// outcome of its own. If the time is past, it overwrites the lock with SETEX, and a
// second GET shows who overwrote it last. The release is DEL unless TTL is 0, which it is
// with less than half a second left. All clocks show whole seconds.
//
// It was published for a cache, where the outcome 2 means that the value is there. The
// lab's choice: a player asks again, with a new call.
var timestamp = discipline{
	name:  "timestamp",
	about: "GET, SETNX <end>:<number>, EXPIRE 2; past its time SETEX, GET, compare … TTL, DEL",
	ttl:   timestampTTL,
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
	timestampTTL   = 2
	timestampMax   = 5
	timestampPause = 0.1
)

func timestampWait(ctx context.Context, c *caller) (outcome, error) {
	number := timestampNumber(c)
	begun := c.now()
	for first := true; c.now()-begun < timestampMax; first = false {
		held, there, err := c.look(ctx)
		took := false
		switch {
		case err != nil:
			return timedOut, err
		case there && timestampPast(c, held):
			took, err = timestampTakeOver(ctx, c, number)
		case there: // and alive
		case first:
			took, err = timestampSet(ctx, c, number)
		default:
			return vanished, nil
		}
		if err != nil || took {
			return acquired, err
		}
		if err := c.pause(ctx, c.x.seconds(timestampPause)); err != nil {
			return timedOut, err
		}
	}
	return timedOut, nil
}

// timestampNumber draws the number that distinguishes callers.
func timestampNumber(c *caller) string { return c.number(1_000_000, 9_999_999) }

func timestampValue(c *caller, number string) string {
	return fmt.Sprintf("%d:%s", c.now()+timestampTTL, number)
}

// timestampSet is SETNX, then EXPIRE.
func timestampSet(ctx context.Context, c *caller, number string) (bool, error) {
	took, err := c.do(ctx, "SETNX", c.x.lockKey, timestampValue(c, number)).Bool()
	if err != nil || !took {
		return false, err
	}
	c.at(stepSet)
	return true, c.do(ctx, "EXPIRE", c.x.lockKey, seconds(timestampTTL)).Err()
}

// timestampPast reports whether the time in a value is before now. An empty value has
// the time 0.
func timestampPast(c *caller, held string) bool {
	until, _, _ := strings.Cut(held, ":")
	end, _ := strconv.ParseInt(until, 10, 64)
	return end < c.now()
}

// timestampTakeOver takes a lock whose time is past: SETEX, and a second GET. Two
// callers that do so one after the other both find their own value.
func timestampTakeOver(ctx context.Context, c *caller, number string) (bool, error) {
	c.at(stepExpired)
	value := timestampValue(c, number)
	if err := c.do(ctx, "SETEX", c.x.lockKey, seconds(timestampTTL), value).Err(); err != nil {
		return false, err
	}
	now, _, err := c.look(ctx)
	return now == value, err
}

// timestampUnlock deletes a lock that has any time left, whoever holds it.
func timestampUnlock(ctx context.Context, c *caller) error {
	left, err := c.secondsLeft(ctx)
	if err != nil || left == 0 {
		return err
	}
	c.at(stepChecked)
	return del(ctx, c)
}
