package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// The published numbers, in seconds.
const (
	timestampTTL   = 2
	timestampMax   = 5
	timestampPause = 0.1
)

// The numbers that distinguish callers.
const (
	timestampLow  = 1_000_000
	timestampHigh = 9_999_999
)

// timestampWait takes a lock that is not there at the first GET with set.
func timestampWait(set func(context.Context, *caller, string) (bool, error)) func(context.Context, *caller) (outcome, error) {
	return func(ctx context.Context, c *caller) (outcome, error) {
		number := timestampNumber(c)
		begun := c.now()
		for first := true; c.now()-begun < timestampMax; first = false {
			held, there, err := c.look(ctx)
			took := false
			switch {
			case err != nil:
				return timedOut, err
			case there && timestampPast(c, held):
				took, err = timestampOverwrite(ctx, c, number)
			case there: // and alive
			case first:
				took, err = set(ctx, c, number)
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
}

func timestampFirstWait(ctx context.Context, c *caller) (outcome, error) {
	number := timestampNumber(c)
	for begun := c.now(); c.now()-begun < timestampMax; {
		if took, err := timestampSet(ctx, c, number); err != nil || took {
			return acquired, err
		}
		c.at(stepTried)
		held, _, err := c.look(ctx) // nothing, if it has just gone
		if err != nil {
			return timedOut, err
		}
		if timestampPast(c, held) {
			if took, err := timestampOverwrite(ctx, c, number); err != nil || took {
				return acquired, err
			}
		}
		if err := c.pause(ctx, c.x.seconds(timestampPause)); err != nil {
			return timedOut, err
		}
	}
	return timedOut, nil
}

// timestampNumber draws a call's number.
func timestampNumber(c *caller) string {
	number := c.number(timestampLow, timestampHigh)
	c.at(stepDrawn)
	return number
}

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

// timestampOverwrite is SETEX, and a second GET. Two callers that do so one after the
// other both find their own value.
func timestampOverwrite(ctx context.Context, c *caller, number string) (bool, error) {
	c.at(stepExpired)
	value := timestampValue(c, number)
	if err := c.do(ctx, "SETEX", c.x.lockKey, seconds(timestampTTL), value).Err(); err != nil {
		return false, err
	}
	c.at(stepOverwrote)
	now, _, err := c.look(ctx)
	return now == value, err
}

// timestampUnlock deletes a lock that has any time left, whoever holds it.
func timestampUnlock(ctx context.Context, c *caller) error {
	c.at(stepLooking)
	left, err := c.secondsLeft(ctx)
	if err != nil || left == 0 {
		return err
	}
	c.at(stepChecked)
	return del(ctx, c)
}
