package lockmgr

import (
	"context"
	"fmt"
	"time"
)

// Extend starts the TTL again. It returns an [ErrLost] if the lock was lost, [ErrReleased] after a release,
// [ErrInvalid] if ctx is nil, [context.Canceled] if [Lock.StopKeepAlive] stopped it, the cause of ctx, and the
// client's error if Redis did not answer or refused. After these last three the old deadline stands, or the TTL
// from the call if that is earlier, and you may call Extend again.
func (l *Lock) Extend(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, errNilContext)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.extendLocked(ctx)
}

// KeepAlive starts the watchdog. From now on it extends the hold whenever a third of the TTL has passed, until the
// hold is released or lost, or [Manager.Close] is called. A hold that you release within the TTL needs no watchdog.
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

// StopKeepAlive stops the watchdog and any extension under way, also one by [Lock.Extend], and waits for its end.
// The hold then ends at its deadline. Call StopKeepAlive before a script of your own releases the lock: a later
// extension would find the lock gone, and report [ErrStolen].
func (l *Lock) StopKeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopExtendingLocked()
	for l.extending != nil {
		l.awaitExtensionLocked(context.Background())
	}
}

// extension is an extension that is under way.
type extension struct {
	cut  context.CancelFunc // cancels it
	over chan struct{}      // closed at its end
}

// awaitExtensionLocked waits until the extension under way or ctx has ended. It unlocks the mutex meanwhile.
func (l *Lock) awaitExtensionLocked(ctx context.Context) {
	over := l.extending.over
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// extendLocked starts the TTL again. It unlocks the mutex while it waits for Redis.
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
		// Only one key: while the lock's slot moves within a Cluster, Redis refuses scripts with several keys,
		// and a hold has to survive that.
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
	if !l.watching && l.next != nil { // the timer was for the end of the claim; the hold now ends with the TTL
		l.next.Stop()
		l.next = nil
	}
	return nil
}

// shortenLocked moves the deadline to end if end is earlier. An extension sets the TTL of this process, which
// may be less than the claim of the process that handed over the lock, and its reply may be lost.
func (l *Lock) shortenLocked(end time.Time) {
	if !end.Before(l.deadline) {
		return
	}
	l.deadline = end
	if l.expiry != nil {
		l.expiry.Reset(time.Until(end))
	}
}

// stopExtendingLocked stops the watchdog, and cancels an extension under way.
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

// extendInTime extends the hold: for the watchdog, or once after a hand-over.
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
