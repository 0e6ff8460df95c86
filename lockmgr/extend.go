package lockmgr

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// extender extends a hold: when its caller says so, by the watchdog, and once after a
// hand-over. All of it is guarded by Lock.mu.
type extender struct {
	l        *Lock
	next     *time.Timer        // the next extension, nil if there is to be none
	watching bool               // the watchdog is on
	running  context.CancelFunc // ends the extension that runs, nil if none does
	idle     sync.Cond          // an extension has ended
}

// Extend starts the TTL anew. It returns an [ErrLost] if the lock is not the caller's any
// more, [ErrReleased] after a release, [ErrInvalid] if ctx is nil, and the client's error
// if Redis did not answer; the old deadline stands then, and Extend may be called again.
func (l *Lock) Extend(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, errNilContext)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.extender.extendLocked(ctx)
}

// KeepAlive starts the watchdog: from now on the hold is extended whenever a third
// of its TTL has passed, until it is released or lost, or [Manager.Close] is called. Holds
// that are shorter than the TTL need no watchdog.
//
// A watchdog also keeps the lock for a caller that hangs. Give the work a deadline.
func (l *Lock) KeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span.errLocked() != nil || l.m.life.ctx.Err() != nil {
		return
	}
	l.extender.watching = true
	if l.extender.next == nil {
		l.extender.next = time.AfterFunc(l.ttl/3, l.extender.run)
	}
}

// StopKeepAlive ends the watchdog, and waits for an extension that runs. The hold
// then ends by its deadline. Call it before a script of your own gives the lock
// back: a later extension would find the lock gone, and report it as [ErrStolen].
func (l *Lock) StopKeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extender.stopLocked()
	for l.extender.running != nil {
		l.extender.idle.Wait()
	}
}

// extendLocked lets go of the mutex while it waits for Redis.
func (e *extender) extendLocked(ctx context.Context) error {
	l := e.l
	for l.span.over == nil && e.running != nil {
		e.idle.Wait()
	}
	if err := l.span.errLocked(); err != nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, err)
	}
	ctx, e.running = context.WithCancel(ctx)
	l.span.unanswered = true
	l.mu.Unlock()
	sent := time.Now()
	extended, err := start(l.m.life, func() (bool, error) {
		// One key only: while the lock's slot moves within a Cluster, scripts of
		// several keys are refused, and a hold has to live through that.
		return l.m.sender.run(ctx, extendScript, l.on.only(1), l.token, l.ttl.Milliseconds()).Bool()
	}).wait(ctx)
	l.mu.Lock()
	e.running()
	e.running = nil
	e.idle.Broadcast()
	if err == nil && !extended {
		l.span.loseLocked(ErrStolen)
	}
	if l.span.over != nil {
		err = l.span.over
	}
	if err != nil {
		return fmt.Errorf("lockmgr: extend %q: %w", l.name, err)
	}
	l.span.deadline, l.span.unanswered = sent.Add(l.ttl), false
	if !e.watching && e.next != nil { // it was for the claim, which is over
		e.next.Stop()
		e.next = nil
	}
	return nil
}

// stopLocked ends the watchdog, and cuts off an extension that runs.
func (e *extender) stopLocked() {
	if e.running != nil {
		e.running()
	}
	if e.next != nil {
		e.next.Stop()
		e.next = nil
	}
	e.watching = false
}

// run extends the hold: the watchdog's turn, or the one time after a hand-over.
func (e *extender) run() {
	l := e.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.next == nil || l.span.errLocked() != nil || l.m.life.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), l.span.deadline)
	defer cancel()
	err := e.extendLocked(ctx)
	if e.next == nil || l.span.errLocked() != nil {
		return
	}
	switch {
	case err != nil: // not answered: try again while there is time
		e.next.Reset(min(l.ttl/10, max(time.Until(l.span.deadline)/2, l.m.opts.Poll)))
	case e.watching:
		e.next.Reset(l.ttl / 3)
	}
}
