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
	on    scriptKeys
	token string
	fence int64
	ttl   time.Duration

	mu       sync.Mutex
	deadline time.Time     // guarded by mu: carries a monotonic reading
	over     error         // guarded by mu: ErrReleased, or how the hold was lost; nil before
	done     chan struct{} // guarded by mu: nil until somebody asks for it
	expiry   *time.Timer   // guarded by mu: closes done at the deadline; nil like done

	unanswered bool        // guarded by mu: the last extension failed: Redis did not answer, or refused
	next       *time.Timer // guarded by mu: the next extension, nil if there is to be none
	watching   bool        // guarded by mu: the watchdog is on
	extending  *extension  // guarded by mu: the one that runs, nil if none does

	releasing *release // guarded by mu: the one that runs, nil if none does
	returned  bool     // guarded by mu: Redis does not know the token any more
	inDoubt   bool     // guarded by mu: an earlier release may have been carried out
}

// newLock returns the Lock of a hold that has begun.
func newLock(s *Slot, ttl time.Duration, g *grant) *Lock {
	l := &Lock{m: s.m, name: s.name, on: s.on, token: g.token, fence: g.fence, ttl: ttl, deadline: g.since.Add(g.lasts)}
	if g.lasts < ttl {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.next = time.AfterFunc(time.Until(l.deadline)/2, l.extendInTime)
	}
	return l
}

// Name returns the name that was acquired.
func (l *Lock) Name() string { return l.name }

// Token returns the value that the key holds during this hold and never again.
func (l *Lock) Token() string { return l.token }

// Fence returns a number larger than that of any earlier hold of this lock. A
// store that remembers the largest it has seen, and refuses smaller ones, is safe
// from holders whose time is over. See the package's documentation for what happens
// to it when the server's clock steps back.
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
			l.expiry = time.AfterFunc(time.Until(l.deadline), l.expire)
		}
	}
	return l.done
}

// Err returns nil while the hold can be trusted; [ErrReleased] once Release was called,
// whatever came of that; and an [ErrLost] ([ErrExpired], [ErrStolen] or
// [ErrUnreachable]) when it was lost.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

// Context returns a copy of ctx that is cancelled when the hold is over, with what
// [Lock.Err] says as context.Cause. Call cancel when you need it no more. For a nil ctx the
// copy has ended already, with an [ErrInvalid] as its cause.
func (l *Lock) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	if ctx == nil {
		none, cancelCause := context.WithCancelCause(context.Background())
		cancelCause(errNilContext)
		return none, func() {}
	}
	ctx, cancelCause := context.WithCancelCause(ctx)
	done := l.Done()
	stop := make(chan struct{})
	go func() { // ends with the hold, or with ctx
		select {
		case <-done:
			cancelCause(l.Err())
		case <-ctx.Done():
		}
		close(stop)
	}()
	return ctx, func() { cancelCause(context.Canceled); <-stop }
}

// errLocked returns how the hold ended, or nil.
func (l *Lock) errLocked() error {
	if l.over == nil && !time.Now().Before(l.deadline) {
		if l.unanswered {
			l.endLocked(ErrUnreachable)
		} else {
			l.endLocked(ErrExpired)
		}
	}
	return l.over
}

// expire ends the hold if its deadline has passed, or waits for the deadline to which an extension
// has moved it.
func (l *Lock) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errLocked() == nil {
		l.expiry.Reset(time.Until(l.deadline))
	}
}

// endLocked ends the hold, unless it is over.
func (l *Lock) endLocked(why error) {
	if l.over != nil {
		return
	}
	l.over = why
	for _, timer := range []*time.Timer{l.expiry, l.next} {
		if timer != nil {
			timer.Stop()
		}
	}
	if l.done != nil {
		close(l.done)
	}
}

// stolenLocked ends the hold because the key is gone or holds another's token, unless its deadline
// had ended it before.
func (l *Lock) stolenLocked() {
	if l.errLocked() == nil {
		l.endLocked(ErrStolen)
	}
}

// Released says that a script of the caller's has released the lock together with
// what it wrote, so that there is nothing left to release. Call [Lock.StopKeepAlive]
// before the script is sent.
func (l *Lock) Released() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopExtendingLocked()
	l.endLocked(ErrReleased)
	l.over, l.returned = ErrReleased, true // the script has found the token there, whatever our clock said
}

// WriteRefused says that a store has refused what was written under this hold,
// because the token or the fence was not the newest any more: the hold is lost.
func (l *Lock) WriteRefused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stolenLocked()
}

// Do runs fn under the lock of that name, and gives fn the hold, for its fence and token.
// The hold is extended while fn runs. When it is lost all the same, fn's context is
// cancelled, with an [ErrLost] that says how as its cause; fn should then stop. Locks are
// not reentrant: a Do or an Acquire of the same name within fn waits for fn itself.
//
// Do returns what fn returned, joined with an ErrLost if the hold did not last until the
// end; or an error of [Manager.Acquire], and then fn was not called. If Redis does not
// answer the release, Do goes by the deadline: a hold that was not over by then lasted.
func (m *Manager) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error) error {
	return m.DoWith(ctx, name, AcquireOptions{}, fn)
}

// DoWith is [Manager.Do] with options of its own: AcquireOptions.Wait bounds the waiting, and ctx
// all of it. So work that takes an hour can wait for five seconds.
func (m *Manager) DoWith(ctx context.Context, name string, opts AcquireOptions, fn func(ctx context.Context, lock *Lock) error) (err error) {
	if fn == nil {
		return fmt.Errorf("lockmgr: do %q: fn is nil: %w", name, ErrInvalid)
	}
	lock, err := m.AcquireWith(ctx, name, opts)
	if err != nil {
		return err
	}
	lock.KeepAlive()
	held, cancel := lock.Context(ctx)
	defer func() {
		release, stop := context.WithTimeout(ctx, cleanupTimeout)
		defer stop()
		// If Redis does not answer the release, the TTL ends the hold: no fault of fn's.
		if lost := lock.Release(release); errors.Is(lost, ErrLost) {
			err = errors.Join(err, lost)
		}
		cancel()
	}()
	return fn(held, lock)
}
