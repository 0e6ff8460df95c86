package lockmgr

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Acquire asks for the lock, and waits for it in the queue until the token has it. It reports
// whether nobody else was met: the lock was free at once. queued says that a script has put the token
// into the queue already, so that it waits first.
//
// ask asks once, by [Slot.Ask] with a script of the caller's, and reports whether the token has the
// lock now. It is called again when a poll (Options.Poll) finds the lock free, or the token's, in case a wake-up was lost.
//
// Without an error the token was given the lock: for the TTL if ask said so, and for a claim
// otherwise. That may be over by now, so the script that writes has to check the token. The
// errors are those of ask; the cause of ctx together with [ErrHeld]; and [ErrClosed]. After one
// the token may have the lock, or wait in the queue: call [Slot.Abandon].
func (s *Slot) Acquire(ctx context.Context, queued bool, ask func(ctx context.Context) (held bool, err error)) (alone bool, err error) {
	_, alone, err = s.acquire(ctx, queued, ask, true)
	return alone, err
}

// Wait waits until the token that a script has put into the queue is given the lock, for
// one poll at most, and reports whether it was; see [Slot.Acquire]. Its errors are those of [Slot.Acquire].
func (s *Slot) Wait(ctx context.Context) (held bool, err error) {
	s.m.wakes.add(s, true)
	g, err := s.sleep(ctx, s.m.opts.Poll)
	return g != nil, err
}

// acquire asks for the lock, and waits, by turns, until the token has it. If a wake-up says
// so, or a release of this process, it returns that hold; with anyHold also one that is over. It
// reports whether the first request got the lock.
func (s *Slot) acquire(ctx context.Context, queued bool, ask func(context.Context) (held bool, err error), anyHold bool) (_ *grant, first bool, err error) {
	s.m.wakes.add(s, false)
	pause, asked := s.m.opts.Poll, time.Now()
	for polls := 0; ; polls++ {
		asks := polls == 0 && !queued
		if first = asks; polls > 0 {
			var others, ours bool
			others, ours, pause = s.look(ctx)
			if ours && anyHold { // for a claim: the wake-up is on its way, or lost
				return nil, false, nil
			}
			asks = !others || time.Since(asked) >= s.m.opts.longPoll()
		}
		if asks {
			asked = time.Now()
			held, err := ask(ctx)
			switch {
			case err != nil && !first && ctx.Err() != nil:
				return nil, false, fmt.Errorf("%w: %w", ErrHeld, err)
			case err != nil || held:
				return nil, first && held, err
			}
		}
		s.m.wakes.add(s, true)
		if g, err := s.sleep(ctx, pause); err != nil || g != nil && (anyHold || s.isUsable(g)) {
			return g, false, err
		}
	}
}

// look reports whether others hold the lock, which is what most polls find, or the token does. It costs Redis an
// eighth of asking for the lock. Where that is not known both are false.
//
// pause is how long to wait before the next poll: longer if the holder's release wakes the slot. A holder that has died
// wakes nobody, so the pause does not go beyond the end of the hold.
func (s *Slot) look(ctx context.Context) (others, ours bool, pause time.Duration) {
	hears := s.m.wakes.hears(s) // from before it looks
	cmd, err := s.m.sender.read(ctx, "get", s.on.keys[0])
	if err != nil {
		return false, false, s.m.opts.Poll
	}
	holder, _ := cmd.Text()
	ours, pause = holder == s.Token(), s.m.opts.Poll
	if !ours && hears && isToken(holder, s.name) {
		if cmd, err = s.m.sender.read(ctx, "pttl", s.on.keys[0]); err == nil {
			left, _ := cmd.Int64()
			pause = max(pause, min(time.Duration(left)*time.Millisecond, s.m.opts.longPoll()))
		}
	}
	return !ours, ours, pause
}

// sleep waits until there is reason to ask again, or the token is given the lock.
func (s *Slot) sleep(ctx context.Context, pause time.Duration) (*grant, error) {
	poll := time.NewTimer(pause)
	defer poll.Stop()
	select {
	case g := <-s.inbox():
		if g != nil && g.token != s.Token() {
			return nil, nil // an earlier one's, which is in doubt since
		}
		return g, nil
	case <-poll.C:
		return nil, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
	case <-s.m.life.ctx.Done():
		return nil, ErrClosed
	}
}

// wake takes a wake-up, if it is for this slot's token. Redis gave the lock after it last
// answered that the token has to wait. So the claim counts from when that was asked, by our
// own clock: however long the wake-up was under way, and whatever the server's clock does,
// that is not too late.
func (s *Slot) wake(w wakeUp) (ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens.String() != w.token {
		return false
	}
	s.grantLocked(&grant{w.token, w.fence, s.waited, w.claim})
	return true
}

// grant gives the slot a hold, or with nil a reason to ask.
func (s *Slot) grant(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grantLocked(g)
}

// grantLocked drops a hold if there is one already. The slot finds out by asking.
func (s *Slot) grantLocked(g *grant) {
	select {
	case s.inboxLocked() <- g:
	default:
	}
}

// inbox returns the channel on which the slot is given holds. Few slots need one: most find the lock free.
func (s *Slot) inbox() chan *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inboxLocked()
}

func (s *Slot) inboxLocked() chan *grant {
	if s.grants == nil {
		s.grants = make(chan *grant, 1)
	}
	return s.grants
}

// queuedAt records what Redis answered to a token: the position at which it waits, or the fence with which it has the
// lock. A wake-up with a smaller number was sent before that.
func (s *Slot) queuedAt(token string, position int64, sent time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != s.tokens.String() {
		return
	}
	s.position, s.waited, s.trip = position, sent, took
}

// isUsable reports whether the slot's caller can go to work on a hold. It cannot if the
// hold is over; if it was given for a position in the queue that the slot has lost since, or before Redis answered with a
// hold, whose TTL counts then; or
// if a claim leaves too little time to extend it, and to do so again.
func (s *Slot) isUsable(g *grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.fence > s.position && !g.isOver() && (g.lasts >= s.ttl || g.remaining() > 3*s.trip)
}

// Abandon ends the attempt: it takes the token out of the queue, and releases the lock if the token
// holds it, after what was asked has ended. What was not answered has no effect from then on,
// also if it arrives later. Then the slot has a new token. If Redis does not answer soon, Abandon
// goes on without the caller; if Redis does not answer at all, the claim or the TTL ends the
// hold.
func (s *Slot) Abandon() {
	s.abandon()
	s.Renew()
}

// Release releases the lock that an earlier token of the slot holds.
func (s *Slot) Release(token string) {
	abandon(s.m, nil, attempt{s.on.only(lockKeys), &tokens{current: token}})
}

// Close stops listening for wake-ups. It releases nothing; see Abandon.
func (s *Slot) Close() { s.m.wakes.remove(s) }

// abandon is Abandon for a slot that is not used any more.
func (s *Slot) abandon() { abandon(s.m, s.asked, s.attempt()) }

func (s *Slot) attempt() attempt { return attempt{s.on.only(lockKeys), s.tokens} }

// attempt names what a slot may have in Redis: a position in the queue, or the lock.
type attempt struct {
	on     scriptKeys
	tokens *tokens
}

// abandon removes what Redis has of attempts, after the request has ended by which it has
// that, by one request: they share a slot of a Cluster. If Redis does not answer at once, abandon goes on without
// the caller.
func abandon(m *Manager, asked *call[*redis.Cmd], attempts ...attempt) {
	start(m.life, func() (struct{}, error) {
		if asked != nil {
			<-asked.done
		}
		// Not a caller's context: that one has ended.
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		args := make([]any, 0, 2*len(attempts))
		for _, a := range attempts {
			args = append(args, a.tokens.String(), a.tokens.inDoubt())
		}
		_ = m.sender.run(ctx, abandonScript, m.names.together(attempts), args...).Err()
		return struct{}{}, nil
	}).waitAtMost(cleanupWait)
}

// inherit lets the current tokens of attempts, which share a slot of a Cluster, have what earlier ones have.
func (m *Manager) inherit(ctx context.Context, attempts []attempt) *redis.Cmd {
	args := make([]any, 0, 2*len(attempts))
	for _, a := range attempts {
		args = append(args, a.tokens, doubts{a.tokens})
	}
	return m.sender.run(ctx, inheritScript, m.names.together(attempts), args...)
}
