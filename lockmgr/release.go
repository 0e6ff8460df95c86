package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Release gives the lock back: to who has waited longest, or to nobody. The hold is over
// as soon as Release is called; that ends the watchdog, and an extension that runs.
//
// Redis is asked in any case, also if ctx has ended: ctx says how long to wait for the
// answer. Without one Release returns the cause of ctx, or the client's error, and may be
// called again; the lock then goes away at the latest with its TTL. After it has
// succeeded, calling it again does nothing.
//
// It returns an [ErrLost] if the hold was lost before, even if Redis still had the lock or
// does not answer, and [ErrInvalid] if ctx is nil. A lock that is gone before its deadline was stolen,
// unless this release or one before it was sent more than once: then it was most likely
// carried out, and its reply lost.
func (l *Lock) Release(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("lockmgr: release %q: %w", l.name, errNilContext)
	}
	l.mu.Lock()
	l.stopLocked()
	if l.errLocked() == nil {
		l.endLocked(ErrReleased)
	}
	if l.given {
		defer l.mu.Unlock()
		return l.lostLocked()
	}
	giving := l.giving
	if giving == nil {
		giving = newCall[struct{}]()
		l.giving = giving
		l.mu.Unlock()
		l.giveBack(ctx, giving)
	} else {
		l.mu.Unlock()
	}
	_, err := giving.wait(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("lockmgr: release %q: %w", l.name, err), l.lostLocked())
	}
	return l.lostLocked()
}

// giveBack asks Redis to take the lock back, and finishes the call with what became of
// that. It returns before that if ctx has ended, or Redis is slow.
func (l *Lock) giveBack(ctx context.Context, giving *call[struct{}]) {
	token := &sends{arg: l.token} // of both attempts
	if ctx.Err() == nil && l.m.prompt() && l.m.alone() {
		var held bool
		_, _, err := l.m.direct(ctx, func(ctx context.Context) (cmd *redis.Cmd) {
			cmd, held = l.m.release(ctx, l, token)
			return cmd
		})
		if answered(err) || !errors.Is(err, errSlow) && ctx.Err() == nil {
			giving.finish(l.gaveBack(held, err, token))
			return
		}
	}
	giving.run(l.m, func() (struct{}, error) {
		var held bool
		_, err := l.m.unattended(func(ctx context.Context) (cmd *redis.Cmd) {
			cmd, held = l.m.release(ctx, l, token)
			return cmd
		})
		return l.gaveBack(held, err, token)
	})
}

// gaveBack notes how a release has ended.
func (l *Lock) gaveBack(held bool, err error, token *sends) (struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giving = nil
	if err != nil {
		l.doubt = l.doubt || !answered(err)
		l.observeEndLocked()
		return struct{}{}, err
	}
	if !held && errors.Is(l.over, ErrReleased) && !l.doubt && !token.again() {
		l.over = ErrStolen // it was over before it was released
	}
	l.given = true
	l.observeEndLocked()
	return struct{}{}, nil
}

// lostLocked returns how the hold was lost, or nil if it was not.
func (l *Lock) lostLocked() error {
	if errors.Is(l.over, ErrLost) {
		return fmt.Errorf("lockmgr: release %q: %w", l.name, l.over)
	}
	return nil
}

// Given says that a script of the caller's has given the lock back together with
// what it wrote, so that there is nothing left to release. Call [Lock.StopKeepAlive]
// before the script is sent.
func (l *Lock) Given() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked()
	l.endLocked(ErrReleased)
	l.over, l.given = ErrReleased, true // the script has found the token there, whatever our clock said
	l.observeEndLocked()
}

// observeEndLocked tells the Observer, once, how the hold has ended.
func (l *Lock) observeEndLocked() {
	if l.observed {
		return
	}
	l.observed = true
	switch o := l.m.opts.Observer; {
	case l.over == ErrReleased && o.Released != nil:
		o.Released(l.name, time.Since(l.began))
	case l.over != ErrReleased && o.Lost != nil:
		o.Lost(l.name, l.over)
	}
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

// release gives a hold's lock back, to the next waiter of this process if nobody
// elsewhere has waited longer. It reports whether the token had held it.
func (m *Manager) release(ctx context.Context, l *Lock, token *sends) (cmd *redis.Cmd, held bool) {
	next, sent := m.nextWaiter(l.name), time.Now()
	var reply []any
	if next == nil {
		cmd = m.runOn(ctx, releaseScript, l.on.lockOnly(), token)
		reply, _ = cmd.Slice()
	} else {
		cmd = m.runOn(ctx, passScript, l.on.lockOnly(), token, next.token, m.ttl, m.keep)
		reply, _ = cmd.Slice()
		m.handOver(next, reply, sent)
	}
	return cmd, len(reply) > 0 && reply[0] == int64(1)
}

// handOver tells the next waiter what a release has made of its token. If it has given
// up meanwhile, nobody else would give back what it may have been given.
func (m *Manager) handOver(next *waiter, reply []any, sent time.Time) {
	switch {
	case len(reply) == 2 && m.pass(next, &grant{parseNumber(reply[1]), sent, m.opts.TTL}):
	case m.isAbandoned(next):
		m.leaveAgain(next)
	case len(reply) == 3: // it waits in the queue now
		m.queuedAt(next, parseNumber(reply[2]), sent, time.Since(sent))
		m.listen(next.line)
	}
}

// leaveAgain takes the token of a waiter that has given up out of Redis once more.
func (m *Manager) leaveAgain(w *waiter) {
	m.leave(slot{m: m, name: w.name, on: w.on, token: w.token, doubt: true})
}
