package client

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"roomd/room"
	"roomd/transport/protocol"
)

// View is a room at one version. It never changes, and must not be changed: others may have it, too.
type View struct {
	// Epoch is the room's life in which Version counts; "" if the room has none yet.
	Epoch string
	// Version counts the room's commits from 1. It is 0 if nobody has joined the room yet.
	Version uint64
	// Users are the members in the order of their seats.
	Users []protocol.Seated
	// Data is the room's; empty if there is none.
	Data protocol.JSON
	// Settings are the room's.
	Settings room.Settings
	// Timers are the room's: by name, when each fires by this client's monotonic clock. Nil if there are none.
	Timers map[string]time.Time
	// Host is the member who is the host; empty if nobody is.
	Host string
	// Member says that this client is a member, by the seat Seat.
	Member bool
	// Seat is the client's own seat, counted from 0. It means nothing unless Member is true.
	Seat int
	// Watching says that this client watches the room.
	Watching bool
}

// User returns the member with that name. It is false if there is none.
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

// replica is the client's copy of a room, which follows what the server says, and the feeds of those
// who iterate over its changes. It does no I/O. The client's mutex guards it.
type replica struct {
	view    View
	lent    bool               // somebody has view.Users, so that it must not change
	synced  bool               // view is what the server listed on the present connection, and what came behind that
	feeds   map[*feed]struct{} // of iterations
	began   bool               // there was an iteration
	keeps   bool               // until there is one, messages are kept for it
	unread  []Change           // these, the last maxLag
	changed chan struct{}      // closed with the next change; nil if nobody waits for it
}

// known reports whether the view is what a server said.
func (r *replica) known() bool { return r.view.Users != nil || r.view.Epoch != "" }

// share returns the view, which stays as it is.
func (r *replica) share() View {
	r.lent = true
	return r.view
}

// apply brings the replica of a user to the version of a changes event. It returns false, and changes nothing,
// if the event builds on another version than that of the replica.
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
	r.notify()
	return true
}

// replace makes the replica what a snapshot says. The user's own seat may be another one by then.
func (r *replica) replace(e *protocol.Event, user string) {
	v := &r.view
	v.Epoch, v.Version, v.Data, v.Host = e.Epoch, e.Version, e.Data, e.Host
	v.Users, r.lent = e.Users, true // the frame has them, too
	if e.Private != nil {
		v.Users = slices.Clone(v.Users)
		for i := range v.Users {
			v.Users[i].Private = e.Private[v.Users[i].User]
		}
	}
	v.Settings = room.Settings{}
	if e.Settings != nil {
		v.Settings = *e.Settings
	}
	v.Timers = nil
	for name, in := range e.Timers {
		r.setTimer(name, endsIn(in))
	}
	r.findSeat(user)
	r.synced = true
	r.tell(r.snapshot())
	r.notify()
}

// keep has the messages until the first iteration kept for it.
func (r *replica) keep() { r.keeps = !r.began }

// hear tells the messages of before that came with the reply to a join.
func (r *replica) hear(reply *protocol.Reply) {
	for i := range reply.Said {
		s := &reply.Said[i]
		r.tell(Change{Change: s.Change(), Epoch: cmp.Or(s.Epoch, reply.Epoch), Version: s.Version})
	}
	r.notify()
}

// findSeat takes the user's own seat from the list: it may be another one now.
func (r *replica) findSeat(user string) {
	if u, ok := r.view.User(user); ok && r.view.Member {
		r.view.Seat = u.Seat
	}
}

// change does what one change says. A type that is not known changes nothing.
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

// endsIn returns when so many ms are over.
func endsIn(ms int64) time.Time { return time.Now().Add(time.Duration(ms) * time.Millisecond) }

// setTimer records when a timer fires; a zero time says that there is none any more. Others may have the map.
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
	case i < 0: // only a server that breaks the protocol speaks of somebody else
	case c.Type == protocol.ChangeSeat: // who had the seat gets another one by the next change
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
