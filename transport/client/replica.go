package client

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"roomd/room"
	"roomd/transport/protocol"
)

// View is a room at one version. Do not change it: others may share it.
type View struct {
	// Epoch identifies the life of the room that Version counts in; "" if the room has none yet.
	Epoch string
	// Version counts the room's commits from 1. It is 0 before the first.
	Version uint64
	// Users are the members in the order of their seats.
	Users []protocol.Seated
	// Data is the room's data, or empty.
	Data     protocol.JSON
	Settings room.Settings
	// Timers says when each of the room's timers fires, by name and this client's monotonic clock. Nil if there are
	// none.
	Timers map[string]time.Time
	// Host is the member who is the host, or empty.
	Host string
	// Member says that this client is a member.
	Member bool
	// Seat is the client's own seat, counted from 0, if Member is true; -1 after a move, before its first snapshot.
	Seat int
	// Watching says that this client watches the room.
	Watching bool
}

// User returns the member with that name, if there is one.
func (v View) User(name string) (protocol.Seated, bool) {
	i := v.find(name)
	if i < 0 {
		return protocol.Seated{}, false
	}
	return v.Users[i], true
}

func (v View) find(user string) int {
	return slices.IndexFunc(v.Users, func(u protocol.Seated) bool { return u.User == user })
}

// replica is the client's copy of a room, with the feeds of its readers. It follows the server's frames and does no
// I/O. The link's mutex guards it.
type replica struct {
	view    View
	lent    bool               // others share view.Users, so it must not change
	synced  bool               // view is up to date with the current connection
	feeds   map[*feed]struct{} // of the iterations
	began   bool               // there was an iteration
	keeps   bool               // messages are kept for the first iteration
	unread  []Change           // the kept messages, at most maxLag
	changed signal             // of the view or the feeds
}

func newReplica() replica {
	return replica{view: View{Seat: noSeat}, feeds: make(map[*feed]struct{})}
}

// known reports whether the view comes from a server.
func (r *replica) known() bool { return r.view.Users != nil || r.view.Epoch != "" }

// share returns the view. Later changes of the replica do not change it.
func (r *replica) share() View {
	r.lent = true
	return r.view
}

// apply applies an event with changes. If the event builds on another version than the replica's, apply changes no
// view and returns false: the replica is then no longer synced. user is the client's own.
func (r *replica) apply(e *protocol.Event, user string) bool {
	v := &r.view
	begins := v.Version == 0 && e.From == 0
	if !begins && (e.Epoch != v.Epoch || e.From != v.Version) {
		r.synced = false
		return false
	}
	v.Epoch, v.Version = e.Epoch, e.Version
	for i := range e.Changes {
		c := Change{Change: e.Changes[i], Epoch: e.Epoch, Version: cmp.Or(e.Changes[i].Version, e.Version),
			More: i < len(e.Changes)-1}
		if c.Type == protocol.ChangeCountdown && c.In != nil {
			c.Ends = endsIn(*c.In)
		}
		r.change(&c)
		r.tell(c)
	}
	if slices.ContainsFunc(e.Changes, func(c protocol.Change) bool { return c.Type == protocol.ChangeSeat }) {
		r.findSeat(user)
	}
	r.changed.notify()
	return true
}

// replace replaces the replica by a snapshot, which may give the user another seat.
func (r *replica) replace(epoch string, version uint64, s *protocol.State, user string) {
	v := &r.view
	v.Epoch, v.Version, v.Data, v.Host = epoch, version, s.Data, s.Host
	v.Users, r.lent = s.Users, true // the frame shares them
	if s.Private != nil {
		v.Users = slices.Clone(v.Users)
		for i := range v.Users {
			v.Users[i].Private = s.Private[v.Users[i].User]
		}
	}
	v.Settings = room.Settings{}
	if s.Settings != nil {
		v.Settings = *s.Settings
	}
	v.Timers = nil
	for name, in := range s.Timers {
		r.setTimer(name, endsIn(in))
	}
	r.findSeat(user)
	r.synced = true
	r.tell(r.snapshot())
	r.changed.notify()
}

// keep keeps messages for the first iteration, unless that has begun already.
func (r *replica) keep() { r.keeps = !r.began }

// hear passes on the earlier messages that came with the reply to a join or a watch.
func (r *replica) hear(reply *protocol.Reply) {
	for i := range reply.Said {
		s := &reply.Said[i]
		r.tell(Change{Change: s.Change(), Epoch: cmp.Or(s.Epoch, reply.Epoch), Version: s.Version})
	}
	r.changed.notify()
}

// findSeat updates the user's own seat from the list.
func (r *replica) findSeat(user string) {
	if u, ok := r.view.User(user); ok && r.view.Member {
		r.view.Seat = u.Seat
	}
}

// change applies one change. It ignores unknown types.
func (r *replica) change(c *Change) {
	v := &r.view
	switch c.Type {
	case protocol.ChangeJoin, protocol.ChangeLeave, protocol.ChangeAway, protocol.ChangeBack, protocol.ChangeMember,
		protocol.ChangePrivate, protocol.ChangeSeat:
		r.changeUser(&c.Change)
	case protocol.ChangeData:
		v.Data = c.Data
	case protocol.ChangeCountdown, protocol.ChangeTimer:
		r.setTimer(c.Name, c.Ends)
	case protocol.ChangeHost:
		v.Host = c.User
	case protocol.ChangeSettings:
		v.Settings = room.Settings{}
		if c.Settings != nil {
			v.Settings = *c.Settings
		}
	}
}

// endsIn returns the time that is ms milliseconds from now.
func endsIn(ms int64) time.Time { return time.Now().Add(time.Duration(ms) * time.Millisecond) }

// setTimer records when a timer fires; a zero time removes the timer. It copies the map, which others may share.
func (r *replica) setTimer(name string, ends time.Time) {
	timers := maps.Clone(r.view.Timers)
	if timers == nil {
		timers = make(map[string]time.Time)
	}
	if timers[name] = ends; ends.IsZero() {
		delete(timers, name)
	}
	if r.view.Timers = timers; len(timers) == 0 {
		r.view.Timers = nil
	}
}

func (r *replica) changeUser(c *protocol.Change) {
	v := &r.view
	if r.lent {
		v.Users, r.lent = slices.Clone(v.Users), false
	}
	i := v.find(c.User)
	switch {
	case c.Type == protocol.ChangeJoin:
		if i >= 0 {
			v.Users = slices.Delete(v.Users, i, i+1)
		}
		at, _ := slices.BinarySearchFunc(v.Users, c.Seat,
			func(u protocol.Seated, seat int) int { return cmp.Compare(u.Seat, seat) })
		v.Users = slices.Insert(v.Users, at, protocol.Seated{User: c.User, Seat: c.Seat, Away: c.Away})
	case i < 0: // no member: the server breaks the protocol
	case c.Type == protocol.ChangeSeat: // the next change moves the member who has the seat now
		v.Users[i].Seat = c.Seat
		slices.SortStableFunc(v.Users, func(a, b protocol.Seated) int { return cmp.Compare(a.Seat, b.Seat) })
	case c.Type == protocol.ChangeLeave:
		v.Users = slices.Delete(v.Users, i, i+1)
	case c.Type == protocol.ChangeMember, c.Type == protocol.ChangePrivate:
		v.Users[i].Change(c)
	default:
		v.Users[i].Away = c.Type == protocol.ChangeAway
	}
}
