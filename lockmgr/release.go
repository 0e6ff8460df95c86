package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// Release releases the lock, and hands it to who has waited longest, if anybody waits. The hold is over
// as soon as Release is called; that ends the watchdog, and an extension that runs.
//
// Redis is asked in any case, also if ctx has ended: ctx says how long to wait for the
// answer, but for 50 ms at least. So after a call whose context has ended, Release(ctx) works
// as well. Without an answer Release returns the cause of ctx, or the client's error, and may be
// called again; the lock then goes away at the latest with its TTL. After it has
// succeeded, calling it again does nothing.
//
// It returns an [ErrLost] if the hold was lost before, even if Redis still had the lock or
// does not answer, and [ErrInvalid] if ctx is nil. A lock that is gone before its deadline was stolen,
// unless this release or one before it was sent more than once: then it was most likely
// carried out, and its reply lost. One that is gone when Redis answers after the deadline has
// expired on the way, after its release: that is no loss.
func (l *Lock) Release(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("lockmgr: release %q: %w", l.name, errNilContext)
	}
	l.mu.Lock()
	l.stopExtendingLocked()
	if l.errLocked() == nil {
		l.endLocked(ErrReleased)
	}
	if l.returned {
		defer l.mu.Unlock()
		return releaseError(l.name, l.over)
	}
	releasing := l.releasing
	if releasing == nil {
		releasing = &release{call: call[struct{}]{done: make(chan struct{})}, lock: l, token: sends{arg: l.token}}
		l.releasing = releasing
		l.mu.Unlock()
		releasing.ask(ctx)
	} else {
		l.mu.Unlock()
	}
	_, err := releasing.wait(ctx)
	if ctx.Err() != nil {
		releasing.waitAtMost(cleanupWait)
		_, err = releasing.wait(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("lockmgr: release %q: %w", l.name, err), releaseError(l.name, l.over))
	}
	return releaseError(l.name, l.over)
}

// release is a call that releases a lock.
type release struct {
	call[struct{}]
	lock  *Lock
	token sends // of all attempts
	held  bool  // the lock held the token when Redis answered
}

// ask asks Redis to release the lock, and finishes the call with the outcome. It
// returns before that if ctx has ended, or Redis is slow.
func (r *release) ask(ctx context.Context) {
	m := r.lock.m
	var abandoned *pending
	if ctx.Err() == nil && m.sender.isPrompt() && m.sender.isIdle() {
		var err error
		_, abandoned, err = m.sender.byCaller(ctx, r.send)
		if redisconn.Answered(err) || !errors.Is(err, errSlow) && m.life.ended(ctx) == nil {
			r.finish(r.lock.released(r, err))
			return
		}
	}
	r.run(m.life, func() (struct{}, error) {
		if abandoned != nil {
			_ = abandoned.wait(m.sender.own.Context())
		}
		_, err := m.sender.unattended(r.send)
		return r.lock.released(r, err)
	})
}

// send sends the release once: to the next waiter of this process, if nobody elsewhere has
// waited longer.
func (r *release) send(ctx context.Context) (cmd *redis.Cmd) {
	l, m := r.lock, r.lock.m
	if next := m.lines.next(l.name); next == nil {
		cmd = m.sender.run(ctx, releaseScript, l.on.only(lockKeys), &r.token)
	} else {
		sent := time.Now()
		m.wakes.addEarly(&next.Slot)
		named := next.Token()
		cmd = m.sender.run(ctx, passScript, l.on.only(lockKeys), &r.token, named, next.ttl.Milliseconds())
		if redisconn.Answered(cmd.Err()) {
			next.tokens.promise(false) // another copy would not find the token of this hold
		}
		m.handOver(next, named, cmd.Val(), sent)
	}
	r.held = cmd.Err() == nil && cmd.Val() != int64(0)
	return cmd
}

// handOver tells the next waiter what a release has made of its token.
func (m *Manager) handOver(next *waiter, token string, reply any, sent time.Time) {
	switch fence, position := parseReply(reply); {
	case fence != "":
		next.grant(&grant{token, parseNumber(fence), sent, next.ttl})
	case position != "": // it waits in the queue now
		next.queuedAt(token, parseNumber(position), sent, time.Since(sent))
		m.wakes.add(&next.Slot)
	}
}

// released records how a release has ended.
func (l *Lock) released(r *release, err error) (struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releasing = nil
	if err != nil {
		l.inDoubt = l.inDoubt || !redisconn.Answered(err)
		return struct{}{}, err
	}
	if !r.held && errors.Is(l.over, ErrReleased) && time.Now().Before(l.deadline) && !l.inDoubt && !r.token.again() {
		l.over = ErrStolen // it was over before it was released
	}
	l.returned = true
	return struct{}{}, nil
}

// releaseError returns how the hold was lost that over has ended, or nil if it was not.
func releaseError(name string, over error) error {
	if errors.Is(over, ErrLost) {
		return fmt.Errorf("lockmgr: release %q: %w", name, over)
	}
	return nil
}
