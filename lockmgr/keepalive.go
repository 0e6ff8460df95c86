package lockmgr

import (
	"context"
	"time"
)

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
	l.alive = true
	if l.keeper == nil {
		l.keeper = time.AfterFunc(l.ttl/3, l.keep)
	}
}

// StopKeepAlive ends the watchdog, and waits for an extension that runs. The hold
// then ends by its deadline. Call it before a script of your own gives the lock
// back: a later extension would find the lock gone, and report it as [ErrStolen].
func (l *Lock) StopKeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	for l.extending != nil {
		l.idle.Wait()
	}
}

// stopLocked ends the watchdog, and cuts off an extension that runs.
func (l *Lock) stopLocked() {
	if l.extending != nil {
		l.extending()
	}
	if l.keeper != nil {
		l.keeper.Stop()
		l.keeper = nil
	}
	l.alive = false
}

// keep extends the hold: the watchdog's turn, or the one time after a hand-over.
func (l *Lock) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keeper == nil || l.span.errLocked() != nil || l.m.life.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), l.span.deadline)
	defer cancel()
	err := l.extendLocked(ctx)
	if l.keeper == nil || l.span.errLocked() != nil {
		return
	}
	switch {
	case err != nil: // not answered: try again while there is time
		l.keeper.Reset(min(l.ttl/10, max(time.Until(l.span.deadline)/2, l.m.opts.Poll)))
	case l.alive:
		l.keeper.Reset(l.ttl / 3)
	}
}
