package lab

import (
	"context"
	_ "embed"
	"time"

	"roomd/loadtest/lab/anomaly"
)

//go:embed lua/del_if_not_after.lua
var delIfNotAfterLua string

// timestampRelease is SET NX PX 1000 with the end of the hold as value, again every
// millisecond, for ever. Its release is a script that deletes the lock if its time is not
// after now + 1000 by the releaser's clock. So it deletes every lock that anybody set
// before the call.
//
// The lab's choices: each attempt computes the value anew; the endless loop ends
// when the player has lost patience.
var timestampRelease = discipline{
	name:  "timestamp-release",
	about: "SET NX PX 1000 with the time of its end, spin 1 ms … Lua: DEL if that is not after now + 1000",
	ttl:   timestampReleaseMS / 1000,
	steps: lockSteps,
	way:   list{&timestampReleaseLock},
	lock:  &timestampReleaseLock,
	listed: []listed{
		{text: "deletes any lock that was set before its clock was read", fault: pauseGiving, anomaly: anomaly.Deleted},
	},
}

var timestampReleaseLock = lock{wait: timestampReleaseWait, unlock: timestampReleaseUnlock}

// The published numbers.
const (
	timestampReleaseMS    = 1000
	timestampReleasePause = time.Millisecond // like spinPause it is not scaled
)

func timestampReleaseWait(ctx context.Context, c *caller) (outcome, error) {
	for {
		took, err := c.took(ctx, "SET", c.x.lockKey, c.nowMillis()+timestampReleaseMS, "NX", "PX", milliseconds(timestampReleaseMS))
		if err != nil || took {
			return acquired, err
		}
		if err := c.pause(ctx, timestampReleasePause); err != nil {
			return timedOut, err
		}
	}
}

func timestampReleaseUnlock(ctx context.Context, c *caller) error {
	return c.do(ctx, "EVAL", delIfNotAfterLua, 1, c.x.lockKey, c.nowMillis()+timestampReleaseMS).Err()
}
