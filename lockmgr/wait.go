package lockmgr

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Acquire asks for the lock, and waits in the queue until the token has it. alone reports that the first request
// got the lock. queued says that a script has already put the token into the queue, so Acquire waits first.
//
// ask asks once, by [Slot.Ask] with a script of the caller, and reports whether the token has the lock now.
// Acquire calls it again when a poll (Options.Poll) finds the lock free or is not answered; and while another
// has the lock, after half of the claim, or 125 ms if that is shorter.
//
// Without an error the token has the lock: for the TTL if ask reported it, and for a claim otherwise. That time
// may have passed, so a script that writes has to check the token. The errors are those of ask; the cause of
// ctx together with [ErrHeld]; and [ErrClosed]. After an error the token may have the lock, or a position in
// the queue: call [Slot.Abandon].
func (s *Slot) Acquire(ctx context.Context, queued bool,
	ask func(ctx context.Context) (held bool, err error)) (alone bool, err error) {
	_, alone, err = s.acquire(ctx, queued, ask, true)
	return alone, err
}

// Wait waits, for one poll at most, for the wake-up of the token, which a script has put into the queue. held reports
// whether it came: the token then has the lock for a claim. It fails as [Slot.Acquire].
func (s *Slot) Wait(ctx context.Context) (held bool, err error) {
	s.m.wakes.add(s, true)
	g, err := s.sleep(ctx, s.m.opts.Poll)
	return g != nil, err
}

// acquire alternates between asking for the lock and waiting, until the token has it. It returns the hold if a wake-up
// or a release of this process announced it, otherwise nil. Unless anyHold is true, it ignores a hold that is not
// usable. first reports that the first request got the lock.
func (s *Slot) acquire(ctx context.Context, queued bool, ask func(context.Context) (held bool, err error),
	anyHold bool) (_ *grant, first bool, err error) {
	s.m.wakes.add(s, false)
	pause, asked := s.m.opts.Poll, time.Now()
	for polls := 0; ; polls++ {
		asks := polls == 0 && !queued
		if first = asks; polls > 0 {
			var others, ours bool
			others, ours, pause = s.look(ctx)
			if ours && anyHold { // a release reserved the lock for this token; the wake-up is on its way, or lost
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

// look reads the lock, at an eighth of the cost of asking for it. It reports whether others hold the lock, or
// the token does. Both are false if the lock is free, or Redis does not answer.
//
// pause is how long to wait before the next poll. It is longer if the holder's release will wake the slot, but
// not beyond the end of the hold, because a dead holder wakes nobody.
func (s *Slot) look(ctx context.Context) (others, ours bool, pause time.Duration) {
	hears := s.m.wakes.hears(s) // must come before the read
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

// sleep waits for pause at most. It returns the token's hold, or nil if it is time to ask again.
func (s *Slot) sleep(ctx context.Context, pause time.Duration) (*grant, error) {
	poll := time.NewTimer(pause)
	defer poll.Stop()
	select {
	case g := <-s.inbox():
		if g != nil && g.token != s.Token() {
			return nil, nil // for an earlier token, which is in doubt now
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

// wake handles a wake-up if it names this slot's token. Redis gave the token the lock after it had answered the
// slot's last request with "wait". So wake counts the claim from the sending of that request, by our own clock:
// however late the wake-up comes, the slot does not trust the hold for too long.
func (s *Slot) wake(w wakeUp) (ours bool) {
	s.mu.Lock()
	ours, waited := s.tokens.String() == w.token, s.waited
	s.mu.Unlock()
	if ours {
		s.grant(&grant{w.token, w.fence, waited, w.claim})
	}
	return ours
}

// grant passes the slot a hold; nil is a reason to ask. It drops g if the inbox is full: the slot then learns of the
// hold by asking.
func (s *Slot) grant(g *grant) {
	select {
	case s.inbox() <- g:
	default:
	}
}

// inbox returns the channel that passes holds to the slot. Few slots need one: most find the lock free.
func (s *Slot) inbox() chan *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grants == nil {
		s.grants = make(chan *grant, 1)
	}
	return s.grants
}

// queuedAt records Redis' answer to a token: its position in the queue, or the fence of its hold. Both are
// numbers of one sequence: a wake-up with a smaller number was sent before this answer.
func (s *Slot) queuedAt(token string, position int64, sent time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != s.tokens.String() {
		return
	}
	s.position, s.waited, s.trip = position, sent, took
}

// isUsable reports whether the slot's caller can go to work on a hold. It cannot if the hold is over; if a
// later answer of Redis replaced the position that the hold was for; or if a claim leaves too little time to
// extend the hold, and to try again if that fails.
func (s *Slot) isUsable(g *grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.fence > s.position && !g.isOver() && (g.lasts >= s.ttl || g.remaining() > 3*s.trip)
}

// Abandon ends the attempt. It waits for the request under way, then removes the token from the queue, or
// releases the lock if the token holds it. Unanswered requests have no effect from then on, even if they arrive
// later. The slot then has a new token. If Redis does not answer soon, Abandon goes on without the caller. If
// Redis does not answer at all, the claim or the TTL ends the hold.
func (s *Slot) Abandon() {
	abandon(s.m, s.asked, s.attempt())
	s.Renew()
}

// Release releases the lock if token, an earlier one of the slot, holds it. It goes on without the caller as Abandon.
func (s *Slot) Release(token string) {
	abandon(s.m, nil, attempt{s.on.only(lockKeys), &tokens{current: token}})
}

// Close stops the slot's wake-ups. It does not release the lock; see Abandon.
func (s *Slot) Close() { s.m.wakes.remove(s) }

func (s *Slot) attempt() attempt { return attempt{s.on.only(lockKeys), s.tokens} }

// attempt names what a slot may have in Redis: a position in the queue, or the lock.
type attempt struct {
	on     scriptKeys
	tokens *tokens
}

// abandon removes attempts from Redis once the request that made them, asked, has ended. It sends one request, so
// the attempts must share a slot of a Cluster. If Redis does not answer at once, abandon goes on without the caller.
func abandon(m *Manager, asked *call[*redis.Cmd], attempts ...attempt) {
	cleaned := start(m.life, func() (struct{}, error) {
		if asked != nil {
			<-asked.done
		}
		// The caller's context may have ended, so this request has one of its own.
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		args := make([]any, 0, 2*len(attempts))
		for _, a := range attempts {
			args = append(args, a.tokens.String(), a.tokens.inDoubt())
		}
		return struct{}{}, m.sender.run(ctx, abandonScript, m.names.together(attempts), args...).Err()
	})
	ctx, cancel := context.WithTimeout(context.Background(), cleanupWait)
	defer cancel()
	_, _ = cleaned.wait(ctx)
}

// inherit passes the lock or position of earlier tokens to the current ones. The attempts must share a slot of
// a Cluster.
func (m *Manager) inherit(ctx context.Context, attempts []attempt) *redis.Cmd {
	args := make([]any, 0, 2*len(attempts))
	for _, a := range attempts {
		args = append(args, a.tokens, doubts{a.tokens})
	}
	return m.sender.run(ctx, inheritScript, m.names.together(attempts), args...)
}
