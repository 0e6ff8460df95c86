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
	over     error         // guarded by mu: ErrReleased, or how the hold was lost; nil while it lasts
	done     chan struct{} // guarded by mu: nil until Done is called
	expiry   *time.Timer   // guarded by mu: set by Done; closes done at the deadline

	unanswered bool        // guarded by mu: Redis did not answer the last extension, or refused it
	next       *time.Timer // guarded by mu: the next extension, or nil
	watching   bool        // guarded by mu: the watchdog runs
	extending  *extension  // guarded by mu: the extension under way, or nil

	releasing *release // guarded by mu: the release under way, or nil
	returned  bool     // guarded by mu: Redis does not know the token any more
	inDoubt   bool     // guarded by mu: Redis may have executed an earlier release
}

// newLock returns the Lock of hold g. If g lasts only for a claim, newLock plans its extension to a whole ttl.
func newLock(s *Slot, ttl time.Duration, g *grant) *Lock {
	l := &Lock{m: s.m, name: s.name, on: s.on, token: g.token, fence: g.fence, ttl: ttl, deadline: g.since.Add(g.lasts)}
	if g.lasts < ttl {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.next = time.AfterFunc(time.Until(l.deadline)/2, l.extendInTime)
	}
	return l
}

// Name returns the name of the lock.
func (l *Lock) Name() string { return l.name }

// Token returns the value of the key during this hold. No other hold has the same token.
func (l *Lock) Token() string { return l.token }

// Fence returns a number larger than in any earlier hold of this lock. A store that remembers the largest fence, and
// refuses smaller ones, is safe from holders whose time is over. For a server's clock that steps back, see the package
// documentation.
func (l *Lock) Fence() int64 { return l.fence }

// Deadline returns the moment up to which the hold can be trusted, unless it is extended. It has a monotonic
// reading.
//
// A hold that another process handed over lasts for the claim (Options.Claim) at first, because its caller goes to
// work without asking Redis. When half of that is over, the Lock extends the hold once, to a whole TTL.
func (l *Lock) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Done returns a channel that is closed when the hold is over. [Lock.Err] says whether it was lost or released.
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

// Err returns nil while the hold can be trusted; an [ErrLost] ([ErrExpired], [ErrStolen] or [ErrUnreachable]) if
// it was lost before its release; otherwise [ErrReleased], even if the release failed.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

// Context returns a copy of ctx that is cancelled when the hold is over, with the error of [Lock.Err] as
// context.Cause. Call cancel when you no longer need it. For a nil ctx, Context returns a context that has
// ended with an [ErrInvalid] as its cause.
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

// errLocked returns how the hold ended, or nil. It ends a hold whose deadline has passed.
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

// expire ends the hold if its deadline has passed. Otherwise an extension has moved the deadline, and expire
// sets the timer again.
func (l *Lock) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errLocked() == nil {
		l.expiry.Reset(time.Until(l.deadline))
	}
}

// endLocked ends the hold with the reason why, unless the hold has ended already.
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

// stolenLocked ends the hold because the key is gone or holds another's token. If the deadline has passed, that
// counts as the reason instead.
func (l *Lock) stolenLocked() {
	if l.errLocked() == nil {
		l.endLocked(ErrStolen)
	}
}

// Released tells l that a script of the caller has released the lock together with its write. There is nothing
// left to release then. Call [Lock.StopKeepAlive] before you send the script.
func (l *Lock) Released() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopExtendingLocked()
	l.endLocked(ErrReleased)
	l.over, l.returned = ErrReleased, true // even if our clock says otherwise: the script found the token in Redis
}

// WriteRefused tells l that a store has refused a write because the hold's token or fence is no longer the
// newest: the hold is lost.
func (l *Lock) WriteRefused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stolenLocked()
}

// Do runs fn under the lock of that name. fn gets the hold, for its fence and token. Do extends the hold while
// fn runs. If the hold is lost all the same, Do cancels fn's context, with an [ErrLost] as its cause; fn should
// then stop. Locks are not reentrant: a Do or an Acquire of the same name within fn waits for fn itself.
//
// Do returns the error of fn, joined with an ErrLost if the hold did not last until fn returned. If Redis does not
// answer the release, the hold counts as lost only if its deadline had passed when fn returned. Without calling
// fn, Do returns the errors of [Manager.Acquire], and [ErrInvalid] if fn is nil.
func (m *Manager) Do(ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error) error {
	return m.DoWith(ctx, name, AcquireOptions{}, fn)
}

// DoWith is [Manager.Do] with options for this call. AcquireOptions.Wait limits only the waiting, and ctx the
// whole call: a call can wait for five seconds at most, and then work for an hour.
func (m *Manager) DoWith(ctx context.Context, name string, opts AcquireOptions,
	fn func(ctx context.Context, lock *Lock) error) (err error) {
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
		// If Redis does not answer the release, the TTL ends the hold. That is no fault of fn.
		if lost := lock.Release(release); errors.Is(lost, ErrLost) {
			err = errors.Join(err, lost)
		}
		cancel()
	}()
	return fn(held, lock)
}
