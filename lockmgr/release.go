package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
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
	l.extender.stopLocked()
	if l.span.errLocked() == nil {
		l.span.endLocked(ErrReleased)
	}
	if l.returned {
		defer l.mu.Unlock()
		return releaseError(l.name, l.span.over)
	}
	releasing := l.releasing
	if releasing == nil {
		releasing = newCall[struct{}]()
		l.releasing = releasing
		l.mu.Unlock()
		l.giveBack(ctx, releasing)
	} else {
		l.mu.Unlock()
	}
	_, err := releasing.wait(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("lockmgr: release %q: %w", l.name, err), releaseError(l.name, l.span.over))
	}
	return releaseError(l.name, l.span.over)
}

// giveBack asks Redis to take the lock back, and finishes the call with the outcome. It
// returns before that if ctx has ended, or Redis is slow.
func (l *Lock) giveBack(ctx context.Context, releasing *call[struct{}]) {
	token, held, sender := &sends{arg: l.token}, false, l.m.sender // token is of both attempts
	send := func(ctx context.Context) (cmd *redis.Cmd) {
		cmd, held = sendRelease(ctx, l, token)
		return cmd
	}
	var abandoned *pending
	if ctx.Err() == nil && sender.isPrompt() && sender.isIdle() {
		var err error
		_, abandoned, err = sender.byCaller(ctx, send)
		if redisconn.Answered(err) || !errors.Is(err, errSlow) && l.m.life.ended(ctx) == nil {
			releasing.finish(l.gaveBack(held, err, token))
			return
		}
	}
	releasing.run(l.m.life, func() (struct{}, error) {
		if abandoned != nil {
			_ = abandoned.wait(sender.own.Context())
		}
		_, err := sender.unattended(send)
		return l.gaveBack(held, err, token)
	})
}

// sendRelease sends a release once: to the next waiter of this process, if nobody elsewhere has
// waited longer. It reports whether the token had held the lock.
func sendRelease(ctx context.Context, l *Lock, token *sends) (cmd *redis.Cmd, held bool) {
	m, next, sent := l.m, l.m.lines.next(l.name), time.Now()
	var reply []any
	if next == nil {
		cmd = m.sender.run(ctx, releaseScript, l.on.only(lockKeys), token)
		reply, _ = cmd.Slice()
	} else {
		m.wakes.addEarly(&next.Slot)
		cmd = m.sender.run(ctx, passScript, l.on.only(lockKeys), token, next.Token(), m.opts.TTL.Milliseconds())
		reply, _ = cmd.Slice()
		m.handOver(next, reply, sent)
	}
	return cmd, len(reply) > 0 && reply[0] == int64(1)
}

// handOver tells the next waiter what a release has made of its token. If the waiter has
// given up meanwhile, nobody else would give back what it may have been given.
func (m *Manager) handOver(next *waiter, reply []any, sent time.Time) {
	switch {
	case len(reply) == 2 && m.lines.pass(next, &grant{parseNumber(reply[1]), sent, m.opts.TTL}):
	case m.lines.isAbandoned(next):
		next.Return(next.Token())
	case len(reply) == 3: // it waits in the queue now
		next.queuedAt(parseNumber(reply[2]), sent, time.Since(sent))
		m.wakes.add(&next.Slot)
	}
}

// gaveBack records how a release has ended.
func (l *Lock) gaveBack(held bool, err error, token *sends) (struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releasing = nil
	if err != nil {
		l.inDoubt = l.inDoubt || !redisconn.Answered(err)
		l.observeEndLocked()
		return struct{}{}, err
	}
	if !held && errors.Is(l.span.over, ErrReleased) && !l.inDoubt && !token.again() {
		l.span.over = ErrStolen // it was over before it was released
	}
	l.returned = true
	l.observeEndLocked()
	return struct{}{}, nil
}

// releaseError returns how the hold was lost that over has ended, or nil if it was not.
func releaseError(name string, over error) error {
	if errors.Is(over, ErrLost) {
		return fmt.Errorf("lockmgr: release %q: %w", name, over)
	}
	return nil
}

// Given says that a script of the caller's has given the lock back together with
// what it wrote, so that there is nothing left to release. Call [Lock.StopKeepAlive]
// before the script is sent.
func (l *Lock) Given() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extender.stopLocked()
	l.span.endLocked(ErrReleased)
	l.span.over, l.returned = ErrReleased, true // the script has found the token there, whatever our clock said
	l.observeEndLocked()
}

// wasLostLocked is called when the hold was lost.
func (l *Lock) wasLostLocked() {
	if l.extender.next != nil {
		l.extender.next.Stop()
	}
	l.observeEndLocked()
}

// observeEndLocked tells the Observer, once, how the hold has ended.
func (l *Lock) observeEndLocked() {
	if l.observed {
		return
	}
	l.observed = true
	switch o := l.m.opts.Observer; {
	case l.span.over == ErrReleased && o.Released != nil:
		o.Released(l.name, time.Since(l.began))
	case l.span.over != ErrReleased && o.Lost != nil:
		o.Lost(l.name, l.span.over)
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
	if l.span.errLocked() == nil {
		l.span.loseLocked(ErrStolen)
	}
}
