package api

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"roomd/transport"
	"roomd/transport/protocol"
)

// gate bounds how many requests run at once, in all and per address.
type gate struct {
	total, each int

	mu      sync.Mutex
	running int                  // guarded by mu
	of      map[netip.Prefix]int // guarded by mu: running requests, by address
}

func newGate(total, each int) *gate {
	return &gate{total: total, each: each, of: make(map[netip.Prefix]int)}
}

type limitError struct {
	error
	limit string        // a Limit constant of package transport
	wait  time.Duration // until the next try; zero if unknown
}

func (e *limitError) Unwrap() error { return e.error }

// enter counts a request until leave is called, or returns why it may not run.
func (g *gate) enter(from netip.Prefix) (leave func(), refusal error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.of[from] >= g.each:
		return nil, &limitError{limit: transport.LimitAPI,
			error: protocol.NewError(protocol.CodeRateLimited, "%d requests from your address run already, the limit",
				g.each)}
	case g.running >= g.total:
		return nil, &limitError{limit: transport.LimitAPI,
			error: protocol.NewError(protocol.CodeUnavailable, "%d requests run already, the limit of this node",
				g.total)}
	}
	g.running++
	g.of[from]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
		if g.of[from]--; g.of[from] == 0 {
			delete(g.of, from)
		}
	}, nil
}

// callers bound the rate of each caller's requests.
type callers struct {
	mu     sync.Mutex
	rate   rate.Limit               // guarded by mu
	burst  int                      // guarded by mu
	byName map[string]*rate.Limiter // guarded by mu: callers whose requests still count
	sweep  int                      // guarded by mu: the number of callers at which idle ones are removed
}

// minSweep is how many callers are kept before idle ones are removed.
const minSweep = 1024

func newCallers(perSecond, burst int) *callers {
	c := &callers{byName: make(map[string]*rate.Limiter), sweep: minSweep}
	c.set(perSecond, burst)
	return c
}

// set applies another rate, also to callers known so far.
func (c *callers) set(perSecond, burst int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rate, c.burst = rate.Limit(perSecond), burst
	if perSecond < 0 {
		c.rate = rate.Inf
	}
	for _, limiter := range c.byName {
		limiter.SetLimit(c.rate)
		limiter.SetBurst(c.burst)
	}
}

// take counts a request, and returns 0. If there were too many, it counts none, and returns how long to wait.
func (c *callers) take(name string) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rate == rate.Inf {
		return 0
	}
	limiter := c.byName[name]
	if limiter == nil {
		c.forgetLocked()
		limiter = rate.NewLimiter(c.rate, c.burst)
		c.byName[name] = limiter
	}
	reserved := limiter.Reserve()
	if wait = reserved.Delay(); wait > 0 {
		reserved.Cancel()
	}
	return wait
}

// forgetLocked removes callers whose requests no longer count, once their number has doubled.
func (c *callers) forgetLocked() {
	if len(c.byName) < c.sweep {
		return
	}
	for name, limiter := range c.byName {
		if limiter.Tokens() >= float64(c.burst) {
			delete(c.byName, name)
		}
	}
	c.sweep = max(minSweep, 2*len(c.byName))
}

func tooMany(wait time.Duration) error {
	wait = (wait + time.Millisecond - 1).Truncate(time.Millisecond)
	return &limitError{
		limit: transport.LimitAPIRate, wait: wait,
		error: protocol.NewError(protocol.CodeRateLimited, "too many requests; wait %v", wait),
	}
}
