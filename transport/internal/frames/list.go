package frames

import (
	"sync"

	"roomd/room"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

// Private returns the private data that somebody may see, as replies have them; nil for none.
func Private(s room.Snapshot, to room.Viewer) map[string]protocol.JSON {
	found := s.Private(to)
	if found == nil {
		return nil
	}
	private := make(map[string]protocol.JSON, len(found))
	for user, data := range found {
		private[user] = protocol.JSON(data)
	}
	return private
}

// List returns the members of a room as replies have them.
func List(s room.Snapshot) []byte { return listOf(s).users }

// encodedList is a room's list as replies have it, and the frame of the snapshot event with it. Each
// is encoded once, however many clients get it.
type encodedList struct {
	users []byte

	mu    sync.Mutex
	of    room.Position // guarded by mu: of frame
	frame []byte        // guarded by mu: the latest; nil if none was asked for
}

func listOf(s room.Snapshot) *encodedList {
	return s.Shared(func() any { return &encodedList{users: protocol.AppendUsers(nil, seated(s.Users()))} }).(*encodedList)
}

// snapshotFrame returns the frame of an event with a snapshot. It is one for all who may see no private data, while
// there are no timers.
func snapshotFrame(e *room.Event, to room.Viewer, clock Clock) []byte {
	l, at := listOf(*e.Snapshot), room.Position{Epoch: e.Epoch, Version: e.Version}
	encode := func(private map[string]protocol.JSON, timers protocol.Timers) []byte {
		return ws.Seal(protocol.AppendEvent(ws.NewFrame(eventSize+len(l.users)), &protocol.Event{
			Event: protocol.EventSnapshot, Room: e.Room, Epoch: e.Epoch, Version: e.Version, Count: e.Snapshot.Count(),
			Settings: Settings(e.Snapshot.Settings), Data: protocol.JSON(e.Snapshot.Data), Private: private, Timers: timers, Host: e.Snapshot.Host(), List: l.users,
		}))
	}
	private, timers := Private(*e.Snapshot, to), e.Snapshot.Timers()
	if timers.Len() > 0 {
		return encode(private, protocol.TimersOf(timers, clock()))
	}
	if private != nil {
		return encode(private, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frame == nil || l.of != at { // versions that differ in their settings only share a list
		l.of, l.frame = at, encode(nil, nil)
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
