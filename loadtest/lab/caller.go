package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"roomd/loadtest/lab/anomaly"
)

var (
	// errBusy says that the player did not get the lock in time.
	errBusy = errors.New("the room is busy")

	// errUnknown says that a request may have been carried out or not.
	errUnknown = errors.New("outcome is unknown")
)

// spinPause is the pause between two attempts in the articles that spin. It is not
// scaled.
const spinPause = 5 * time.Millisecond

// caller asks to join or to leave on behalf of one player.
type caller struct {
	*process
	x      *cell
	user   string
	leave  bool
	ahead  int64 // published seconds by which its clock is ahead
	value  string
	random *rand.Rand
	cancel context.CancelFunc // of its request

	asked time.Time
	sent  bool // its write; an error after that leaves the outcome unknown

	// Guarded by x.mu.
	plan   map[step]strike
	held   bool // stopped at a step
	dead   bool // crashed
	done   bool // got its answer, or died
	waited bool // found the lock taken
	lost   bool // one of its replies was lost
}

// record adds an event of the caller to the history.
func (c *caller) record(e anomaly.Event) {
	e.Caller = c.user
	c.x.history.add(e)
}

// request runs one join or leave and records its outcome.
func (c *caller) request(ctx context.Context) {
	c.asked, c.sent = time.Now(), false
	c.x.mu.Lock()
	c.waited = false
	c.x.mu.Unlock()
	c.record(anomaly.Event{Kind: anomaly.Asked, Leave: c.leave})
	err := c.x.d.way.ask(ctx, c)
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.dead {
		return
	}
	// Refused requests count: their waiting is part of the latency.
	_ = c.x.latency.RecordValue(time.Since(c.asked).Microseconds())
	switch {
	case err == nil:
		c.x.actions++
		c.record(anomaly.Event{Kind: anomaly.ToldOK})
	case c.sent || errors.Is(err, errUnknown):
		c.record(anomaly.Event{Kind: anomaly.ToldUnknown})
	default:
		c.record(anomaly.Event{Kind: anomaly.ToldFailed})
	}
}

// change returns the list after the caller's join or leave. As published, a join
// appends without checking who is there.
func (c *caller) change(users []string) []string {
	if !c.leave {
		return append(users, c.user)
	}
	changed := []string{}
	for _, user := range users {
		if user != c.user {
			changed = append(changed, user)
		}
	}
	return changed
}

// turnedAway records that the caller found the lock taken.
func (c *caller) turnedAway() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.waited {
		return
	}
	c.waited = true
	c.record(anomaly.Event{Kind: anomaly.Refused})
	c.x.changed.Broadcast()
}

// pause sleeps between two attempts. It fails with errBusy when the player has
// lost patience, or the time is up.
func (c *caller) pause(ctx context.Context, d time.Duration) error {
	c.turnedAway()
	if time.Since(c.asked) > c.x.patience {
		return errBusy
	}
	return sleep(ctx, d, c.x.over)
}

// sleep returns after d. It returns the cause of ctx if that ends before, and errBusy
// if over is closed before; nil is never closed.
func sleep(ctx context.Context, d time.Duration, over <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return errBusy
	}
}

// now returns what the caller's clock shows, in whole published seconds.
func (c *caller) now() int64 {
	return time.Now().UnixNano()/int64(c.x.second) + c.ahead
}

// nowMillis returns what the caller's clock shows, in published milliseconds.
func (c *caller) nowMillis() int64 {
	return time.Now().UnixNano()/int64(c.x.second/1000) + 1000*c.ahead
}

// number draws a random number from low to high.
func (c *caller) number(low, high int) string {
	return strconv.Itoa(low + c.random.IntN(high-low+1))
}
