package lockmgr

import (
	"sync"
	"time"
)

// Lock is one hold of a lock. It is safe for concurrent use.
type Lock struct {
	m     *Manager
	name  string
	on    scriptKeys
	token string
	fence int64
	began time.Time // when the caller got it
	ttl   time.Duration

	mu        sync.Mutex
	span      lifespan        // guarded by mu
	extender  extender        // guarded by mu
	releasing *call[struct{}] // guarded by mu: the release that runs, nil if none does
	returned  bool            // guarded by mu: Redis does not know the token any more
	inDoubt   bool            // guarded by mu: an earlier release may have been carried out
	observed  bool            // guarded by mu: the Observer was told how the hold ended
}

// newLock returns the Lock of a hold that has begun, for a caller that asked at start.
func newLock(s *Slot, ttl time.Duration, g *grant, start time.Time) *Lock {
	now := time.Now()
	l := &Lock{m: s.m, name: s.name, on: s.on, token: s.token, fence: g.fence, began: now, ttl: ttl}
	l.span.mu, l.span.deadline, l.span.lost = &l.mu, g.since.Add(g.lasts), l.wasLostLocked
	l.extender.l, l.extender.idle.L = l, &l.mu
	if g.lasts < ttl {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.extender.next = time.AfterFunc(time.Until(l.span.deadline)/2, l.extender.run)
	}
	if acquired := s.m.opts.Observer.Acquired; acquired != nil {
		acquired(l.name, now.Sub(start))
	}
	return l
}

// Name returns the name that was acquired.
func (l *Lock) Name() string { return l.name }

// Token returns the value that the key holds during this hold and never again.
func (l *Lock) Token() string { return l.token }

// Fence returns a number larger than that of any earlier hold of this lock. A
// store that remembers the largest it has seen, and refuses smaller ones, is safe
// from holders whose time is over. It is the server's time in microseconds when the hold
// began, so it grows also when Redis has lost what it knew; while the server's clock is
// behind, after a step back, it is one more than the last hold's. See the package's
// documentation for how far that carries.
func (l *Lock) Fence() int64 { return l.fence }

// Deadline returns the moment up to which the hold can be trusted, unless it is
// extended. It carries a monotonic reading.
//
// A hold that another process handed over begins with the claim (Options.Claim),
// so that nobody has to ask Redis before going to work. When half of that is over
// it is extended, once, to the TTL that any hold has.
func (l *Lock) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.span.deadline
}

// Done returns a channel that is closed when the hold is over: it was lost, or
// released. [Lock.Err] says which.
func (l *Lock) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.span.doneLocked()
}

// Err returns nil while the hold can be trusted; [ErrReleased] once Release was called,
// whatever came of that; and an [ErrLost] ([ErrExpired], [ErrStolen] or
// [ErrUnreachable]) when it was lost.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.span.errLocked()
}
