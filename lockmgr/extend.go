package lockmgr

import (
	"context"
	"fmt"
	"time"
)

// Extend starts the TTL anew. It returns an [ErrLost] if the lock is not the caller's any
// more, [ErrReleased] after a release, [ErrInvalid] if ctx is nil, [context.Canceled] if
// [Lock.StopKeepAlive] ended it, the cause of ctx, and the client's error if Redis did not answer; the
// old deadline stands then, or the TTL from now if that is earlier, and Extend may be called again.
func (l *Lock) Extend(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, errNilContext)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.extendLocked(ctx)
}

// KeepAlive starts the watchdog: from now on the hold is extended whenever a third
// of its TTL has passed, until it is released or lost, or [Manager.Close] is called. Holds
// that are shorter than the TTL need no watchdog.
//
// A watchdog also keeps the lock for a caller that hangs. Give the work a deadline.
func (l *Lock) KeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errLocked() != nil || l.m.life.ctx.Err() != nil {
		return
	}
	l.watching = true
	if l.next == nil {
		l.next = time.AfterFunc(l.ttl/3, l.extendInTime)
	}
}

// StopKeepAlive ends the watchdog, and an extension that runs, also one by [Lock.Extend]. The hold
// then ends by its deadline. Call it before a script of your own gives the lock
// back: a later extension would find the lock gone, and report it as [ErrStolen].
func (l *Lock) StopKeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopExtendingLocked()
	for l.extending != nil {
		l.awaitExtensionLocked(context.Background())
	}
}

// extension is an extension that runs.
type extension struct {
	cut  context.CancelFunc // ends it
	over chan struct{}      // closed when it has ended
}

// awaitExtensionLocked waits for the extension that runs, until ctx ends. It lets go of the mutex meanwhile.
func (l *Lock) awaitExtensionLocked(ctx context.Context) {
	over := l.extending.over
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// extendLocked starts the TTL anew. It lets go of the mutex while it waits for Redis.
func (l *Lock) extendLocked(ctx context.Context) error {
	for l.over == nil && l.extending != nil && ctx.Err() == nil {
		l.awaitExtensionLocked(ctx)
	}
	err := l.errLocked()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, err)
	}
	ctx, cut := context.WithCancel(ctx)
	l.extending = &extension{cut, make(chan struct{})}
	l.unanswered = true
	sent := time.Now()
	l.shortenLocked(sent.Add(l.ttl))
	l.mu.Unlock()
	extended, err := start(l.m.life, func() (bool, error) {
		// One key only: while the lock's slot moves within a Cluster, scripts of
		// several keys are refused, and a hold has to live through that.
		return l.m.sender.run(ctx, extendScript, l.on.only(1), l.token, l.ttl.Milliseconds()).Bool()
	}).wait(ctx)
	l.mu.Lock()
	cut()
	close(l.extending.over)
	l.extending = nil
	if err == nil && !extended {
		l.stolenLocked()
	}
	if l.over != nil {
		err = l.over
	}
	if err != nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, err)
	}
	l.deadline, l.unanswered = sent.Add(l.ttl), false
	if !l.watching && l.next != nil { // it was for the claim, which is over
		l.next.Stop()
		l.next = nil
	}
	return nil
}

// shortenLocked moves the deadline to end if that is earlier. An extension gives the key the TTL of this process, which
// may be less than the claim of the process that handed the lock over, and its reply may be lost.
func (l *Lock) shortenLocked(end time.Time) {
	if !end.Before(l.deadline) {
		return
	}
	l.deadline = end
	if l.expiry != nil {
		l.expiry.Reset(time.Until(end))
	}
}

// stopExtendingLocked ends the watchdog, and cuts off an extension that runs.
func (l *Lock) stopExtendingLocked() {
	if l.extending != nil {
		l.extending.cut()
	}
	if l.next != nil {
		l.next.Stop()
		l.next = nil
	}
	l.watching = false
}

// extendInTime extends the hold: the watchdog's turn, or the one time after a hand-over.
func (l *Lock) extendInTime() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil || l.errLocked() != nil || l.m.life.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), l.deadline)
	defer cancel()
	err := l.extendLocked(ctx)
	if l.next == nil || l.errLocked() != nil {
		return
	}
	switch {
	case err != nil: // not answered: try again while there is time
		l.next.Reset(min(l.ttl/10, max(time.Until(l.deadline)/2, l.m.opts.Poll)))
	case l.watching:
		l.next.Reset(l.ttl / 3)
	}
}
