package transport

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/protocol"
)

// placeWait bounds how long a request for a room's list waits until the session has its place back.
const placeWait = 5 * time.Second

// listing is a room as an action of a session has found it, and the seat that the session had there.
type listing struct {
	room.Snapshot
	seat int
}

// has reports whether a user is in the list.
func (l *listing) has(user string) bool {
	users := l.Users()
	i, found := slices.BinarySearchFunc(users, l.seat, func(o room.Occupant, seat int) int { return cmp.Compare(o.Seat, seat) })
	return found && users[i].User == user || slices.ContainsFunc(users, func(o room.Occupant) bool { return o.User == user })
}

// event returns the event that shows the list.
func (l *listing) event(id string) *room.Event {
	return &room.Event{Room: id, Epoch: l.Epoch, Version: l.Version, Snapshot: &l.Snapshot}
}

// ifListed returns an error if an action of the session has succeeded and yet the room lacks the
// session: another action, which was committed with it, has taken the place away. An event says why.
func (s *session) ifListed(result room.Result) error {
	if l := (&listing{result.Snapshot, result.Seat}); l.has(s.user) {
		return nil
	}
	return fmt.Errorf("%w: the place was taken away in the same commit", room.ErrUnknown)
}

// isLackedBy reports whether the session is a member and a snapshot lacks it.
func (m *membership) isLackedBy(snapshot room.Snapshot) bool {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	return m.member && !(&listing{snapshot, m.seat}).has(m.session.user)
}

// isMember reports whether the client takes the session for a member of a room.
func (s *session) isMember(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.memberships[id]
	return m != nil && m.member
}

// readWhole reads a room for a reply that lists it. If the session is a member and not in the list,
// it waits until the session is brought back, and reads again. It fails with [room.ErrUnavailable]
// if that takes too long.
func (s *session) readWhole(id string) (snapshot room.Snapshot, err error) {
	lacking := s.untilPlaced(id, func() (room.Snapshot, bool) {
		snapshot, err = s.server.rooms.Read(s.server.life, id)
		return snapshot, err == nil
	})
	return snapshot, cmp.Or(lacking, err)
}

// untilPlaced calls ask. While that says with a room that the session's place may be missing there,
// and it is, untilPlaced waits until the session is brought back, and asks again. It fails with
// [room.ErrUnavailable] if that takes too long.
func (s *session) untilPlaced(id string, ask func() (now room.Snapshot, doubtful bool)) error {
	ctx, cancel := context.WithTimeout(s.server.life, placeWait)
	defer cancel()
	var pause backoff
	for {
		now, doubtful := ask()
		if !doubtful {
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
		if !pause.wait(ctx) {
			return fmt.Errorf("%w: the session has lost its place, and has it not back within %v", room.ErrUnavailable, placeWait)
		}
	}
}

// doubt returns nil if a snapshot may be shown to the client. If the session is a member and not in
// it, or only its seat is, doubt makes sure that a rejoin runs, and returns what is closed when that
// has ended. It returns an error if the connection ends.
func (s *session) doubt(id string, snapshot room.Snapshot) (running <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.memberships[id]
	switch {
	case s.replaced:
		return nil, errReplaced
	case m == nil || !m.member || m.need != needJoin && (&listing{snapshot, m.seat}).has(s.user):
		return nil, nil
	case m.need == needNothing:
		m.need = needConfirm
	}
	m.settleLocked(nil, false)
	if m.rejoin == nil {
		return nil, room.ErrClosed
	}
	return m.rejoin.done, nil
}

// encodedList is a room's list as replies have it, and the frame of the snapshot event with it. Each
// is encoded once, however many clients get it.
type encodedList struct {
	users []byte

	mu    sync.Mutex
	of    room.Position // guarded by mu: of frame
	frame []byte        // guarded by mu: the latest; nil if none was asked for
}

func encodedOf(s room.Snapshot) *encodedList {
	return s.Shared(func() any { return &encodedList{users: protocol.AppendUsers(nil, seated(s.Users()))} }).(*encodedList)
}

// snapshotFrame returns the frame of an event with a snapshot.
func snapshotFrame(e *room.Event) []byte {
	l, at := encodedOf(*e.Snapshot), room.Position{Epoch: e.Epoch, Version: e.Version}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frame == nil || l.of != at { // versions that differ in their settings only share a list
		l.of, l.frame = at, seal(protocol.AppendEvent(newFrame(eventSize+len(l.users)), &protocol.Event{
			Event: protocol.EventSnapshot, Room: e.Room, Epoch: e.Epoch, Version: e.Version,
			Count: e.Snapshot.Count(), Settings: settingsOf(e.Snapshot.Settings), Data: protocol.JSON(e.Snapshot.Data), List: l.users,
		}))
	}
	return l.frame
}

func seated(users []room.Occupant) []protocol.Seated {
	list := make([]protocol.Seated, len(users))
	for i, u := range users {
		list[i] = protocol.Seated{User: u.User, Seat: u.Seat, Away: u.Away, Ready: u.Ready, Data: protocol.JSON(u.Data)}
	}
	return list
}
