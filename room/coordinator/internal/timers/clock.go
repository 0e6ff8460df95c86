package timers

import (
	"sync"
	"time"
)

// maxSample is how long a measurement of the clock is kept although later ones were less exact.
const maxSample = 10 * time.Second

// clock is the clock that all nodes share, as this node has measured it: that of a Redis server. Between two
// measurements this node's own clock counts, which nobody can set. Where nothing was measured it is what this node
// takes for the time.
type clock struct {
	mu    sync.Mutex
	at    int64         // guarded by mu: what it showed, in µs since 1970
	when  time.Time     // guarded by mu: then; zero if nothing was measured
	error time.Duration // guarded by mu: how wrong that may be
}

// measured records that the clock showed so many µs since 1970 some time between two moments. A measurement
// that is much less exact than one of late does not count.
func (c *clock) measured(sent, received time.Time, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := received.Sub(sent)
	if !c.when.IsZero() && took > 2*c.error+5*time.Millisecond && received.Sub(c.when) < maxSample {
		return
	}
	c.at, c.when, c.error = at, sent.Add(took/2), took/2
}

// now returns what the clock shows, in ms since 1970.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.when.IsZero() {
		return time.Now().UnixMilli()
	}
	return (c.at + time.Since(c.when).Microseconds() + 500) / 1000 // the nearest
}
