package lockmgr

import (
	"context"
	"time"
)

// KeepAlive starts the watchdog: from now on the hold is extended whenever a third
// of its TTL has passed, until it is released or lost. For holds that are shorter
// than the TTL it is not needed. It ends with [Manager.Close], too.
//
// A watchdog keeps a lock for a caller that hangs, too. Give the work a deadline.
func (l *Lock) KeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errLocked() != nil || l.m.life.Err() != nil {
		return
	}
	l.alive = true
	if l.keeper == nil {
		l.keeper = time.AfterFunc(l.ttl/3, l.keep)
	}
}

// StopKeepAlive ends the watchdog, and waits for an extension that runs. The hold
// then ends by its deadline. Call it before a script of your own gives the lock
// back: an extension that came behind that would find the lock gone, and report it
// as [ErrStolen].
func (l *Lock) StopKeepAlive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	for l.extending != nil {
		l.idle.Wait()
	}
}

// stopLocked has no extension start any more, and cuts off one that runs.
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
	if l.keeper == nil || l.errLocked() != nil || l.m.life.Err() != nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), l.deadline)
	defer cancel()
	err := l.extendLocked(ctx)
	l.silent = err != nil
	if l.keeper == nil || l.errLocked() != nil {
		return
	}
	switch {
	case err != nil: // not answered: try again while there is time
		l.keeper.Reset(min(l.ttl/10, max(time.Until(l.deadline)/2, l.m.opts.Poll)))
	case l.alive:
		l.keeper.Reset(l.ttl / 3)
	}
}
