package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// The published numbers: seconds, and those that distinguish callers.
const (
	timestampTTL   = 2
	timestampMax   = 5
	timestampPause = 0.1
	timestampLow   = 1_000_000
	timestampHigh  = 9_999_999
)

// timestampTurns runs turns until one ends the wait, or the time is over. Each call draws a number.
func timestampTurns(turn func(ctx context.Context, c *caller, number string, first bool) (outcome, error)) attempt {
	return func(ctx context.Context, c *caller) (outcome, error) {
		number := c.number(timestampLow, timestampHigh)
		c.at(stepDrawn)
		begun := c.now()
		for first := true; c.now()-begun < timestampMax; first = false {
			if o, err := turn(ctx, c, number, first); err != nil || o != timedOut {
				return o, err
			}
			if err := c.pause(ctx, c.x.seconds(timestampPause)); err != nil {
				return timedOut, err
			}
		}
		return timedOut, nil
	}
}

// timestampWait takes a lock that is not there at the first GET with set.
func timestampWait(set func(context.Context, *caller, string) (outcome, error)) attempt {
	return timestampTurns(func(ctx context.Context, c *caller, number string, first bool) (outcome, error) {
		held, there, err := c.look(ctx)
		switch {
		case err != nil || there && !timestampPast(c, held):
			return timedOut, err
		case there:
			return timestampOverwrite(ctx, c, number)
		case first:
			return set(ctx, c, number)
		}
		return vanished, nil
	})
}

var timestampFirstWait = timestampTurns(func(ctx context.Context, c *caller, number string, _ bool) (outcome, error) {
	if o, err := timestampSet(ctx, c, number); err != nil || o == acquired {
		return o, err
	}
	c.at(stepTried)
	held, _, err := c.look(ctx) // nothing, if it has just gone
	if err != nil || !timestampPast(c, held) {
		return timedOut, err
	}
	return timestampOverwrite(ctx, c, number)
})

func timestampValue(c *caller, number string) string {
	return fmt.Sprintf("%d:%s", c.now()+timestampTTL, number)
}

// timestampPast reports whether the time in a value is before now. An empty value has the time 0.
func timestampPast(c *caller, held string) bool {
	until, _, _ := strings.Cut(held, ":")
	end, _ := strconv.ParseInt(until, 10, 64)
	return end < c.now()
}

// timestampSet is SETNX, then EXPIRE.
func timestampSet(ctx context.Context, c *caller, number string) (outcome, error) {
	took, err := c.do(ctx, "SETNX", c.x.lockKey, timestampValue(c, number)).Bool()
	if err != nil || !took {
		return timedOut, err
	}
	c.at(stepSet)
	return acquired, c.do(ctx, "EXPIRE", c.x.lockKey, seconds(timestampTTL)).Err()
}

// timestampOverwrite is SETEX, and a second GET. Two callers that do so one after the other both find their own value.
func timestampOverwrite(ctx context.Context, c *caller, number string) (outcome, error) {
	c.at(stepExpired)
	value := timestampValue(c, number)
	if err := c.do(ctx, "SETEX", c.x.lockKey, seconds(timestampTTL), value).Err(); err != nil {
		return timedOut, err
	}
	c.at(stepOverwrote)
	if now, _, err := c.look(ctx); err != nil || now != value {
		return timedOut, err
	}
	return acquired, nil
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
