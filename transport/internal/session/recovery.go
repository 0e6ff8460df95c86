package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/transport/internal/membership"
)

// recovery runs the actions that a membership needs, one after the other. Meanwhile the client gets no events of the
// room; at the end it gets a snapshot, or is told of the loss.
type recovery struct {
	p      *presence
	cancel context.CancelFunc
	done   chan struct{}
}

func (p *presence) startRecoveryLocked() {
	if p.recovery != nil {
		return
	}
	s := p.session
	ctx, cancel := context.WithCancel(s.ctx)
	r := &recovery{p, cancel, make(chan struct{})}
	p.recovery = r
	s.background.Go(func() {
		defer close(r.done)
		defer cancel()
		backoff := NewBackoff()
		for {
			status, action, over := r.beginAction(ctx)
			if over {
				return
			}
			result, err := r.act(ctx, status, action)
			if wait := r.endAction(ctx, result, err); wait {
				_ = backoff.Wait(ctx)
			}
		}
	})
}

// beginAction returns the next action, and the status that needs it. If there is none, it ends idle events, and the
// recovery is over. Once ctx has ended, the recovery is over, too.
func (r *recovery) beginAction(ctx context.Context) (status membership.Status, action room.Action, over bool) {
	p, s := r.p, r.p.session
	for {
		s.mu.Lock()
		status = p.membership.Status
		action, needed := p.membership.Next()
		if needed && ctx.Err() == nil {
			p.busy++
			s.mu.Unlock()
			return status, action, false
		}
		if ctx.Err() != nil || !p.hasIdleEvents() {
			p.recovery = nil
			p.settleLocked()
			s.mu.Unlock()
			return status, action, true
		}
		s.mu.Unlock()
		p.endEvents()
	}
}

func (r *recovery) act(
	ctx context.Context, status membership.Status, action room.Action,
) (result room.Result, err error) {
	p, s := r.p, r.p.session
	if status != membership.Following {
		result, err = s.shared.Rooms.Do(ctx, p.room, action)
	} else if _, err = p.subscribe(); err == nil {
		result, err = p.take(ctx, action, false)
	}
	if err == nil && status != membership.Overtaken {
		err = ifListed(result, s.User)
	}
	return result, err
}

// take takes the seat that is reserved for a moved user. A session that has left the room, now (left) or earlier, may
// have given up that seat. If so, take returns ErrNotMember and takes no other seat.
func (p *presence) take(ctx context.Context, action room.Action, left bool) (result room.Result, err error) {
	s := p.session
	if left || s.hasLeft(p.room) {
		if result.Snapshot, err = s.shared.Rooms.Read(ctx, p.room); err != nil {
			return result, err
		}
		if !isListed(result.Snapshot, room.AnySeat, s.User) {
			return result, room.ErrNotMember
		}
	}
	return s.shared.Rooms.Do(ctx, p.room, action)
}

// maxLeft is how many rooms a session remembers as left.
const maxLeft = 64

// leftLocked remembers that the client left a room, if the session has other rooms: a move can bring it back.
func (s *Session) leftLocked(id string) {
	if len(s.presences) > 1 && !slices.Contains(s.left, id) {
		s.left = append(s.left[max(0, len(s.left)-maxLeft+1):], id)
	}
}

func (s *Session) hasLeft(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.left, id)
}

// endAction records the result of an action, and reports whether to pause before the next one.
func (r *recovery) endAction(ctx context.Context, result room.Result, err error) (wait bool) {
	p, s := r.p, r.p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p.busy--
	if err != nil && ctx.Err() != nil { // the request that has cancelled ctx goes on
		p.settleLocked()
		return false
	}
	lacked := func(e *room.Event) bool { return isLackedBy(e, s.User) }
	needed := p.membership.Status.NeedsList() || slices.ContainsFunc(p.deferred, lacked)
	followed := p.membership.Status == membership.Following
	lost, wait := p.membership.Answer(result, err)
	if err == nil {
		// After a move even a watcher that has just listed the room gets the snapshot: the user is a member now.
		p.queue.Restart(listEvent(p.room, result.Snapshot), needed, followed)
	}
	if lost != nil {
		p.loseLocked(lost, nil, false)
	}
	p.settleLocked()
	return wait
}

func listEvent(id string, now room.Snapshot) *room.Event {
	return &room.Event{Room: id, Epoch: now.Epoch, Version: now.Version, Snapshot: &now}
}

// isLackedBy reports whether an event may show the room without a user.
func isLackedBy(e *room.Event, user string) bool {
	_, seated := e.Member(user)
	return e.Snapshot != nil && !seated || e.Version == 1 ||
		slices.ContainsFunc(e.Changes, func(c room.Change) bool { return c.Type == room.KindLeave && c.User == user })
}

const (
	firstPause = 100 * time.Millisecond
	LastPause  = 5 * time.Second
)

// NewBackoff returns the pauses between retries that no client asked for. Jitter spreads them after an outage of
// Redis.
func NewBackoff() pause.Backoff {
	return pause.Backoff{First: firstPause, Max: LastPause, Jitter: .5}
}

// SeatWait bounds how long a request waits until a recovery has brought the session's seat back.
const SeatWait = 5 * time.Second

// readWhole reads a room for a reply with its list. If the session is a member and not in the list, it waits for the
// recovery, and reads again. It fails as Rooms.Read or retryUntilMember.
func (s *Session) readWhole(id string) (snapshot room.Snapshot, err error) {
	lacking := s.retryUntilMember(id, func() (room.Snapshot, bool) {
		snapshot, err = s.shared.Rooms.Read(s.shared.Life, id)
		return snapshot, err == nil
	})
	return snapshot, cmp.Or(lacking, err)
}

// retryUntilMember calls try until the snapshot contains the session, waiting for recovery in between. It stops if try
// returns false, or the membership ends. It fails with [room.ErrUnavailable] after SeatWait, and as doubt.
func (s *Session) retryUntilMember(id string, try func() (now room.Snapshot, matters bool)) error {
	ctx, cancel := context.WithTimeout(s.shared.Life, SeatWait)
	defer cancel()
	backoff := NewBackoff()
	for {
		now, matters := try()
		if !matters {
			return nil
		}
		running, err := s.doubt(id, now)
		if running == nil {
			return err
		}
		select {
		case <-running:
		case <-ctx.Done():
		}
		if backoff.Wait(ctx) != nil {
			return fmt.Errorf("%w: the session has lost its place, and has it not back within %v",
				room.ErrUnavailable, SeatWait)
		}
	}
}

// doubt returns nil if the client may see a snapshot. If the session is a member, but the snapshot may lack it, doubt
// starts a recovery unless one runs, and returns its done channel. It fails if the connection ends.
func (s *Session) doubt(id string, now room.Snapshot) (running <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[id]
	if s.closed {
		return nil, errReplaced
	}
	if p == nil || !p.membership.Status.IsMember() {
		return nil, nil
	}
	absent := p.membership.Status == membership.Missing || p.membership.Status == membership.Following
	if !absent && isListed(now, p.membership.Seat, s.User) {
		return nil, nil
	}
	p.questionLocked()
	if p.recovery == nil {
		return nil, room.ErrClosed
	}
	return p.recovery.done, nil
}

// questionLocked makes a member ask whether it still is one, because a list lacks it.
func (p *presence) questionLocked() {
	p.membership.Take(membership.Questioned)
	p.settleLocked()
}

// refillLocked starts reading a room for a client that has missed events.
func (s *Session) refillLocked(p *presence) {
	if s.closed {
		return
	}
	s.background.Go(func() {
		backoff := NewBackoff()
		for !p.tryRefill() && backoff.Wait(s.ctx) == nil {
		}
	})
}

// tryRefill gives the queue a snapshot, unless a member is missing in it: then it starts a recovery. It reports false
// if it has to be tried again.
func (p *presence) tryRefill() (done bool) {
	s := p.session
	s.mu.Lock()
	missed := p.queue.Missed
	s.mu.Unlock()
	var now room.Snapshot
	if missed != nil {
		var err error
		if now, err = s.shared.Rooms.readSince(s.shared.Life, p.room, *missed); err != nil {
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case missed == nil, s.presences[p.room] != p: // a list, or a snapshot, has come
		return p.queue.Refill(nil)
	case !p.membership.Status.IsMember(), isListed(now, p.membership.Seat, s.User):
		return p.queue.Refill(listEvent(p.room, now))
	}
	p.queue.Refill(nil)
	p.questionLocked() // the member is missing in the snapshot, as in doubt
	return true
}
