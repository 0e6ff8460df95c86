package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"roomd/room"
	"roomd/transport/internal/membership"
	"roomd/transport/internal/outbox"
)

// SeatWait bounds how long a request for a room's list waits for the session's seat.
const SeatWait = 5 * time.Second

// isListed reports whether a user is in a room; seat is where it looks first.
func isListed(now room.Snapshot, seat int, user string) bool {
	users := now.Users()
	i, found := slices.BinarySearchFunc(users, seat, func(o room.Occupant, seat int) int {
		return cmp.Compare(o.Seat, seat)
	})
	is := func(o room.Occupant) bool { return o.User == user }
	return found && is(users[i]) || slices.ContainsFunc(users, is)
}

// isMember reports whether the client takes the session for a member of a room.
func (s *Session) isMember(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[id]
	return p != nil && p.membership.Status.IsMember()
}

// readWhole reads a room for a reply with its list. If a member is missing in the list, it waits for the recovery,
// and reads again. It fails with [room.ErrUnavailable] if that takes too long.
func (s *Session) readWhole(id string) (snapshot room.Snapshot, err error) {
	lacking := s.retryUntilMember(id, func() (room.Snapshot, bool) {
		snapshot, err = s.shared.Rooms.Read(s.shared.Life, id)
		return snapshot, err == nil
	})
	return snapshot, cmp.Or(lacking, err)
}

// retryUntilMember calls try until its snapshot contains the session, waiting for recovery in between. It stops if
// membership does not matter to try, or has ended, and fails with [room.ErrUnavailable] after SeatWait.
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

// doubt returns nil if the client may see a snapshot. If a member is missing in it, or only its user's seat is there,
// doubt makes sure that a recovery runs, and returns its done channel. It fails if the connection ends.
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
	p.afterLocked(nil, nil)
	p.settleLocked()
}

// refill starts reading a room for a client that has missed events.
func (s *Session) refill(queue *outbox.Room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.background.Go(func() {
		backoff := NewBackoff()
		for !s.tryRefill(queue) && backoff.Wait(s.ctx) == nil {
		}
	})
}

// tryRefill gives the queue a snapshot. It reports false if it has to be tried again.
func (s *Session) tryRefill(queue *outbox.Room) bool {
	missed := queue.Missed()
	if missed == nil { // a list, or a snapshot, has come
		return queue.Refill(nil)
	}
	now, err := s.shared.Rooms.readSince(s.shared.Life, queue.ID, *missed)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[queue.ID]
	if p == nil || p.queue != queue {
		return true
	}
	if !p.membership.Status.IsMember() || isListed(now, p.membership.Seat, s.User) {
		return queue.Refill(listEvent(queue.ID, now))
	}
	queue.Refill(nil)
	p.questionLocked() // the member is missing in the snapshot, as in doubt
	return true
}
