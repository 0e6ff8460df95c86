package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Lock is one hold of a lock. It is safe for concurrent use.
type Lock struct {
	m     *Manager
	name  string
	keys  []string
	token string
	fence int64
	since time.Time // when the request was sent that brought it
	ttl   time.Duration

	mu       sync.Mutex
	deadline time.Time          // guarded by mu
	over     error              // guarded by mu: ErrReleased, or how it was lost
	done     chan struct{}      // guarded by mu: nil until somebody asks for it
	expiry   *time.Timer        // guarded by mu: runs if done is not nil
	keeper   *time.Timer        // guarded by mu: the next extension, nil if there is to be none
	alive    bool               // guarded by mu: the watchdog is on
	silent   bool               // guarded by mu: the watchdog's last extension was not answered
	giving   bool               // guarded by mu: a release runs
	cancel   context.CancelFunc // guarded by mu: of the extension that runs
	idle     sync.Cond          // on mu: an extension or a release has ended
}

func newLock(m *Manager, name string, keys []string, token string, ttl time.Duration, g *grant) *Lock {
	l := &Lock{m: m, name: name, keys: keys, token: token, fence: g.fence, since: g.since, ttl: ttl, deadline: g.since.Add(g.lasts)}
	l.idle.L = &l.mu
	if g.lasts < ttl {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.keeper = time.AfterFunc(time.Until(l.deadline)/2, l.keep)
	}
	return l
}

// Name returns the name that was acquired.
func (l *Lock) Name() string { return l.name }

// Token returns the value that the key holds during this hold and never again.
func (l *Lock) Token() string { return l.token }

// Fence returns a number larger than that of any earlier hold of this lock. A
// store that remembers the largest it has seen, and refuses smaller ones, is safe
// from holders whose time is over. It is the server's time in microseconds, or
// one more than the last hold's.
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
	return l.deadline
}

// Done returns a channel that is closed when the hold is over: it was lost, or
// released. [Lock.Err] says which.
func (l *Lock) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		over := l.errLocked()
		l.done = make(chan struct{})
		if over != nil {
			close(l.done)
		} else {
			l.watchDeadlineLocked()
		}
	}
	return l.done
}

// Err returns nil while the hold can be trusted; [ErrReleased] after its release;
// and an [ErrLost] ([ErrExpired], [ErrStolen] or [ErrUnreachable]) when it was lost.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

func (l *Lock) errLocked() error {
	if l.over == nil && !time.Now().Before(l.deadline) {
		if l.silent {
			l.loseLocked(ErrUnreachable)
		} else {
			l.loseLocked(ErrExpired)
		}
	}
	return l.over
}

// watchDeadlineLocked has done closed when the deadline passes. An extension
// moves it.
func (l *Lock) watchDeadlineLocked() {
	l.expiry = time.AfterFunc(time.Until(l.deadline), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.errLocked() == nil {
			l.expiry.Reset(time.Until(l.deadline))
		}
	})
}

// endLocked ends the hold, once.
func (l *Lock) endLocked(why error) bool {
	if l.over != nil {
		return false
	}
	l.over = why
	if l.done != nil {
		close(l.done)
	}
	for _, t := range []*time.Timer{l.expiry, l.keeper} {
		if t != nil {
			t.Stop()
		}
	}
	return true
}

func (l *Lock) loseLocked(cause error) {
	if l.endLocked(cause) && l.m.opts.Observer.Lost != nil {
		l.m.opts.Observer.Lost(l.name, cause)
	}
}

// Extend starts the TTL anew. It returns an [ErrLost] if the lock is not ours any
// more, [ErrReleased] after a release, and the client's error if Redis did not
// answer; the old deadline stands then, and Extend may be called again.
func (l *Lock) Extend(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.extendLocked(ctx)
}

// extendLocked lets go of the mutex while it waits for Redis.
func (l *Lock) extendLocked(ctx context.Context) error {
	for l.over == nil && l.cancel != nil {
		l.idle.Wait()
	}
	if err := l.errLocked(); err != nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, err)
	}
	if l.giving {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, ErrReleased)
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.mu.Unlock()
	sent := time.Now()
	// One key only: while the lock's slot moves within a Cluster, scripts of
	// several keys are refused, and a hold has to live through that.
	answer, err := l.m.runUntil(ctx, extendScript, l.keys[:1], []any{l.token, l.ttl.Milliseconds()}, nil).Int()
	l.mu.Lock()
	l.cancel()
	l.cancel = nil
	l.idle.Broadcast()
	switch {
	case l.over != nil:
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, l.over)
	case err != nil:
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, err)
	case answer == 1:
		l.deadline = sent.Add(l.ttl)
		if !l.alive && l.keeper != nil { // it was for the claim, which is over
			l.keeper.Stop()
			l.keeper = nil
		}
		return nil
	case l.errLocked() == nil:
		l.loseLocked(ErrStolen)
	}
	return fmt.Errorf("lockmgr: extend %q: %w", l.name, l.over)
}

// Release gives the lock back: to who has waited longest, or to nobody. It ends
// the watchdog, and an extension that runs, and waits for them. Calling it again
// after it succeeded does nothing.
//
// It returns an [ErrLost] if the hold was lost before, and the client's error if
// Redis did not answer; the lock then goes away at the latest with its TTL, and
// Release may be called again. A key that is not ours any more before the
// deadline counts as released: the likely reason is an earlier release that was
// carried out and whose reply was lost.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	for l.cancel != nil || l.giving {
		l.idle.Wait()
	}
	if errors.Is(l.over, ErrReleased) {
		return nil
	}
	l.giving = true
	l.mu.Unlock() // Err and Done answer while Redis is asked
	given, err := l.m.release(ctx, l.name, l.keys, l.token)
	l.mu.Lock()
	l.giving = false
	l.idle.Broadcast()
	switch {
	case err != nil:
		return fmt.Errorf("lockmgr: release %q: %w", l.name, err)
	case !given:
		if lost := l.errLocked(); lost != nil {
			return fmt.Errorf("lockmgr: release %q: %w", l.name, lost)
		}
	}
	l.releasedLocked()
	return nil
}

// Given says that a script of the caller's has given the lock back together with
// what it wrote, so that there is nothing left to release. Call [Lock.StopKeepAlive]
// before the script is sent.
func (l *Lock) Given() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releasedLocked()
}

func (l *Lock) releasedLocked() {
	if l.endLocked(ErrReleased) && l.m.opts.Observer.Released != nil {
		l.m.opts.Observer.Released(l.name, time.Since(l.since))
	}
	l.over = ErrReleased
}

// WriteRefused says that a store has refused what was written under this hold,
// because the token or the fence was not the newest any more: the hold is lost.
func (l *Lock) WriteRefused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m.opts.Observer.StaleWrite != nil {
		l.m.opts.Observer.StaleWrite(l.name)
	}
	if l.errLocked() == nil {
		l.loseLocked(ErrStolen)
	}
}

// release gives a token's lock back, to the next waiter of this process if nobody
// elsewhere has waited longer. It reports whether the token had held it.
func (m *Manager) release(ctx context.Context, name string, keys []string, token string) (given bool, err error) {
	heir, quiet := m.heir(name)
	heirToken := ""
	switch {
	case heir != nil:
		heirToken = heir.token
	case quiet:
		if given, err := m.give(ctx, keys, token); given || err != nil {
			return given, err
		}
	}
	sent := time.Now()
	reply, err := m.run(ctx, releaseScript, keys, []any{token, heirToken, m.ttl, m.keep}).Slice()
	if heir != nil {
		m.settle(heir, reply, sent)
	}
	if err != nil {
		return false, err
	}
	return reply[0] == int64(1), nil
}

// settle tells the heir of a release what became of it. If it has gone, nobody
// else would give back what it may have been given.
func (m *Manager) settle(heir *waiter, reply []any, sent time.Time) {
	var g *grant
	if len(reply) > 1 {
		if fence, ok := reply[1].(int64); ok {
			g = &grant{fence, sent, m.opts.TTL}
		}
	}
	switch {
	case g != nil && m.pass(heir, g):
	case m.hasGivenUp(heir):
		m.leave(heir.line.name, heir.token)
	case len(reply) == 3: // it waits in the queue now
		now, _ := reply[2].(int64)
		m.learn(heir, moment{sent, now})
		m.listen(heir.line)
	}
}
