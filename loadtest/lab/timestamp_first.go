package lab

import (
	"context"

	"roomd/loadtest/lab/anomaly"
)

// timestampFirst is timestamp, but each turn makes a value and tries SETNX before its
// GET. So a waiter gets a lock that was freed, and there are only the outcomes 1 and 0. A
// lock that is freed before the GET counts as one with the time 0: SETEX overwrites it,
// although somebody else may have set it by then.
//
// The lab's choices: each value has a random number of its own, also after a takeover;
// on outcome 0 the cache's caller reads the value before it gives up.
var timestampFirst = discipline{
	name:  "timestamp-first",
	about: "the same, each turn with SETNX first, and SETEX also if it has just gone … TTL, DEL",
	ttl:   timestampTTL,
	steps: with(stepSet, stepTried, stepChecked, stepExpired),
	way:   list{&timestampFirstLock},
	lock:  &timestampFirstLock,
	listed: []listed{
		{text: "takeover race", fault: takeoverRace, anomaly: anomaly.TwoHolders},
		{text: "unlock deletes anyone's lock", fault: pauseGiving, anomaly: anomaly.Deleted},
		{text: "client clocks", fault: clockAhead, anomaly: anomaly.TwoHolders},
		{text: "two holders without any fault", fault: justGone, anomaly: anomaly.TwoHolders},
	},
}

var timestampFirstLock = lock{wait: timestampFirstWait, unlock: timestampUnlock, looksAfterTimeout: true}

func timestampFirstWait(ctx context.Context, c *caller) (outcome, error) {
	for begun := c.now(); c.now()-begun < timestampMax; {
		if took, err := timestampSet(ctx, c, timestampNumber(c)); err != nil || took {
			return acquired, err
		}
		c.at(stepTried)
		held, _, err := c.look(ctx) // nothing, if it has just gone
		if err != nil {
			return timedOut, err
		}
		if timestampPast(c, held) {
			if took, err := timestampTakeOver(ctx, c, timestampNumber(c)); err != nil || took {
				return acquired, err
			}
		}
		if err := c.pause(ctx, c.x.seconds(timestampPause)); err != nil {
			return timedOut, err
		}
	}
	return timedOut, nil
}
