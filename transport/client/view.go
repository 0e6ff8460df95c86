package client

import (
	"cmp"
	"slices"

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
	Settings protocol.Settings
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

// replica is the client's copy of a room, which follows what the server says. It does no I/O.
type replica struct {
	view View
	lent bool // somebody has view.Users, so that it must not change
}

// outcome says what an event did to a replica.
type outcome int

const (
	applied outcome = iota
	replaced
	missed  // the event builds on another version: the replica is as it was
	ignored // the event says nothing about the state
)

// share returns the view, which stays as it is.
func (r *replica) share() View {
	r.lent = true
	return r.view
}

// apply brings the replica to the version of the event, or reports missed.
func (r *replica) apply(e *protocol.Event) outcome {
	switch e.Event {
	case protocol.EventSnapshot:
		r.replace(e.Epoch, e.Version, e.Users, e.Data, e.Settings)
		return replaced
	case protocol.EventChanges:
	default:
		return ignored
	}
	began := r.view.Version == 0 && e.From == 0
	if !began && (e.Epoch != r.view.Epoch || e.From != r.view.Version) {
		return missed
	}
	r.view.Epoch, r.view.Version = e.Epoch, e.Version
	for i := range e.Changes {
		r.change(&e.Changes[i])
	}
	return applied
}

// replace makes the replica what a list or a snapshot says.
func (r *replica) replace(epoch string, version uint64, users []protocol.Seated, data protocol.JSON, settings *protocol.Settings) {
	v := &r.view
	v.Epoch, v.Version, v.Data = epoch, version, data
	v.Users, r.lent = users, true // the frame has them, too
	v.Settings = protocol.Settings{}
	if settings != nil {
		v.Settings = *settings
	}
}

// change does what one change says. A type that is not known changes nothing.
func (r *replica) change(c *protocol.Change) {
	v := &r.view
	switch c.Type {
	case protocol.ChangeJoin:
		r.remove(c.User)
		r.insert(protocol.Seated{User: c.User, Seat: c.Seat, Away: c.Away})
	case protocol.ChangeLeave:
		r.remove(c.User)
	case protocol.ChangeAway, protocol.ChangeBack:
		r.update(c.User, func(u *protocol.Seated) { u.Away = c.Type == protocol.ChangeAway })
	case protocol.ChangeMember:
		r.update(c.User, func(u *protocol.Seated) { u.Ready, u.Data = c.Ready, c.Data })
	case protocol.ChangeData:
		v.Data = c.Data
	case protocol.ChangeSettings:
		v.Settings = protocol.Settings{}
		if c.Settings != nil {
			v.Settings = *c.Settings
		}
	}
}

// own makes the list the replica's own, so that it may change.
func (r *replica) own() {
	if r.lent {
		r.view.Users, r.lent = slices.Clone(r.view.Users), false
	}
}

func (r *replica) insert(u protocol.Seated) {
	r.own()
	at, _ := slices.BinarySearchFunc(r.view.Users, u.Seat, func(u protocol.Seated, seat int) int { return cmp.Compare(u.Seat, seat) })
	r.view.Users = slices.Insert(r.view.Users, at, u)
}

func (r *replica) remove(user string) {
	if i := r.view.find(user); i >= 0 {
		r.own()
		r.view.Users = slices.Delete(r.view.Users, i, i+1)
	}
}

func (r *replica) update(user string, change func(*protocol.Seated)) {
	if i := r.view.find(user); i >= 0 {
		r.own()
		change(&r.view.Users[i])
	}
}
