package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// Release releases the lock, and hands it to the caller that has waited longest. The hold is over as soon as
// Release is called. That also stops the watchdog, and an extension under way.
//
// Release asks Redis in any case, even if ctx has ended. ctx limits how long it waits for the answer, but it
// waits 50 ms at least. So Release(ctx) also works after a call whose context has ended. Without an answer,
// Release returns the cause of ctx or the client's error. You may then call it again; otherwise the lock
// expires with its TTL. After a success, calling it again does nothing.
//
// Release returns an [ErrLost] if the hold was lost before, even if Redis still had the lock or does not
// answer, and [ErrInvalid] if ctx is nil. A lock that is gone before its deadline was stolen, unless this
// release was sent more than once, or an earlier one was not answered: then Redis has most likely executed it. If
// the lock is gone, and Redis answers after the deadline, the lock expired on the way: that is no loss.
func (l *Lock) Release(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("lockmgr: release %q: %w", l.name, errNilContext)
	}
	r, begun := l.beginRelease()
	if begun {
		l.m.askRelease(ctx, r, true)
	}
	awaitReleases(ctx, r)
	return l.releaseOutcome(ctx, r)
}

// beginRelease ends the hold and returns its release, or nil if the lock was released before. It reports
// whether the caller has to send that release.
func (l *Lock) beginRelease() (r *release, begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopExtendingLocked()
	if l.errLocked() == nil {
		l.endLocked(ErrReleased)
	}
	if l.returned || l.releasing != nil {
		return l.releasing, false
	}
	l.releasing = &release{call: call[struct{}]{done: make(chan struct{})}, lock: l, token: sends{arg: l.token}}
	return l.releasing, true
}

// awaitReleases waits for calls until ctx ends, and then for another 50 ms. Some calls may be nil.
func awaitReleases(ctx context.Context, calls ...*release) {
	for _, r := range calls {
		if r != nil {
			_, _ = r.wait(ctx)
		}
	}
	if ctx.Err() == nil {
		return
	}
	more, cancel := context.WithTimeout(context.Background(), cleanupWait)
	defer cancel()
	for _, r := range calls {
		if r != nil {
			_, _ = r.wait(more)
		}
	}
}

// releaseOutcome waits until r or ctx ends, and returns the error of r or the cause of ctx, together with the loss
// of the hold if it was lost. r is nil if an earlier release succeeded.
func (l *Lock) releaseOutcome(ctx context.Context, r *release) (err error) {
	if r != nil {
		_, err = r.wait(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("lockmgr: release %q: %w", l.name, err), releaseError(l.name, l.over))
	}
	return releaseError(l.name, l.over)
}

// releaseRequest is a request that releases one lock or several.
type releaseRequest interface {
	send(ctx context.Context) *redis.Cmd // sends it once
	ended(err error)                     // gives the calls their result
}

// askRelease sends r in the caller's goroutine if Redis is prompt, no other request is under way, and r is the
// caller's only request. Otherwise, and if Redis turns slow or ctx ends, a goroutine sends r, and askRelease returns.
func (m *Manager) askRelease(ctx context.Context, r releaseRequest, only bool) {
	var abandoned *pending
	if only && ctx.Err() == nil && m.sender.isPrompt() && m.sender.isIdle() {
		var err error
		_, abandoned, err = m.sender.byCaller(ctx, r.send)
		if redisconn.Answered(err) || !errors.Is(err, errSlow) && m.life.ended(ctx) == nil {
			r.ended(err)
			return
		}
	}
	m.life.run(func() {
		if abandoned != nil {
			_ = abandoned.wait(m.sender.own.Context())
		}
		_, err := m.sender.unattended(r.send)
		r.ended(err)
	})
}

// release is a call that releases a lock.
type release struct {
	call[struct{}]
	lock  *Lock
	token sends // counts all sendings
	held  bool  // Redis answered that the token held the lock
	err   error // the error that Redis answered
}

// send sends the release once. It hands the lock to the next waiter of this process, unless somebody elsewhere
// has waited longer.
func (r *release) send(ctx context.Context) (cmd *redis.Cmd) {
	l, m, sent := r.lock, r.lock.m, time.Now()
	next, named := r.next()
	if next == nil {
		cmd = m.sender.run(ctx, releaseScript, l.on.only(lockKeys), &r.token)
	} else {
		cmd = m.sender.run(ctx, passScript, l.on.only(lockKeys), &r.token, named, next.ttl.Milliseconds())
	}
	reply, err := cmd.Result()
	if redisconn.Answered(err) {
		r.answered(next, named, reply, err, sent)
	}
	return cmd
}

// next returns this process's waiter that the release offers the lock, and its token, or nil. The waiter gets wake-ups
// from now on, in case others have waited longer.
func (r *release) next() (w *waiter, token string) {
	if w = r.lock.m.lines.next(r.lock.name); w == nil {
		return nil, ""
	}
	r.lock.m.wakes.add(&w.Slot, false)
	return w, w.Token()
}

// answered handles Redis' answer to a release. If next is not nil, the release named next's token (named) as the
// next holder, and answered tells next the outcome.
func (r *release) answered(next *waiter, named string, reply any, err error, sent time.Time) {
	if refused, ok := reply.(error); ok {
		err = refused
	}
	r.err, r.held = err, err == nil && reply != int64(0)
	if next != nil {
		next.tokens.promise(false) // another copy of this release finds the token of this hold gone
		switch fence, position := parseReply(reply); {
		case fence != "":
			next.grant(&grant{named, parseNumber(fence), sent, next.ttl})
		case position != "":
			next.queuedAt(named, parseNumber(position), sent, time.Since(sent))
		}
	}
}

func (r *release) ended(err error) {
	if err == nil {
		err = r.err
	}
	r.finish(r.lock.released(r, err))
}

// releases are the releases in one script.
type releases []*release

// send sends all releases once; see release.send.
func (rs releases) send(ctx context.Context) *redis.Cmd {
	m, sent := rs[0].lock.m, time.Now()
	next, named := make([]*waiter, len(rs)), make([]string, len(rs))
	keys, args := make([]string, 0, lockKeys*len(rs)), make([]any, 0, 3*len(rs))
	for i, r := range rs {
		ttl := int64(0)
		if next[i], named[i] = r.next(); next[i] != nil {
			ttl = next[i].ttl.Milliseconds()
		}
		keys, args = append(keys, r.lock.on.keys[:lockKeys]...), append(args, &r.token, named[i], ttl)
	}
	cmd := m.sender.run(ctx, releaseAllScript, m.names.scriptKeys(keys), args...)
	replies, err := cmd.Slice()
	if !redisconn.Answered(err) {
		return cmd
	}
	replies = append(replies, make([]any, len(rs)-len(replies))...) // an error has no replies
	for i, r := range rs {
		r.answered(next[i], named[i], replies[i], err, sent)
	}
	return cmd
}

func (rs releases) ended(err error) {
	for _, r := range rs {
		r.ended(err)
	}
}

// released records the result of r, and returns it.
func (l *Lock) released(r *release, err error) (struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releasing = nil
	if err != nil {
		l.inDoubt = l.inDoubt || !redisconn.Answered(err)
		return struct{}{}, err
	}
	if !r.held && errors.Is(l.over, ErrReleased) && time.Now().Before(l.deadline) && !l.inDoubt && !r.token.again() {
		l.over = ErrStolen // the lock was gone before its release
	}
	l.returned = true
	return struct{}{}, nil
}

// releaseError returns an error if the hold was lost.
func releaseError(name string, over error) error {
	if errors.Is(over, ErrLost) {
		return fmt.Errorf("lockmgr: release %q: %w", name, over)
	}
	return nil
}
