package lab

import (
	"context"
	_ "embed"

	"roomd/loadtest/lab/anomaly"
)

//go:embed lua/del_if_past.lua
var delIfPastLua string

// timestampPlain is in the text of the article of timestamp-release: SETNX with the end
// of the hold as value, and no TTL; a script releases it if that time is past. So a
// holder that is done sooner does not release it, and only a release frees a dead
// holder's lock.
//
// The lab's choices: the timeout is the other one's, 1,000 ms; a holder releases
// once, when it is done, and nobody who waits releases in its place.
var timestampPlain = discipline{
	name:  "timestamp-plain",
	about: "SETNX <time of its end> … Lua: DEL if that is past",
	ttl:   timestampReleaseMS / 1000,
	steps: []step{stepLocked, stepRead, stepWrote, stepGiving}, // without stepGave: its release need not free the lock
	way:   list{&timestampPlainLock},
	lock:  &timestampPlainLock,
	listed: []listed{
		{text: "nobody can give it back before its time", fault: noFault, anomaly: anomaly.Stuck, forever: true},
		{text: "a crashed holder blocks until somebody releases", fault: crashLocked, anomaly: anomaly.Stuck, forever: true},
	},
}

var timestampPlainLock = lock{try: timestampPlainTry, unlock: timestampPlainUnlock}

func timestampPlainTry(ctx context.Context, c *caller) (bool, error) {
	return c.do(ctx, "SETNX", c.x.lockKey, c.nowMillis()+timestampReleaseMS).Bool()
}

func timestampPlainUnlock(ctx context.Context, c *caller) error {
	return c.do(ctx, "EVAL", delIfPastLua, 1, c.x.lockKey, c.nowMillis()).Err()
}
