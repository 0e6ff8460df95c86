package client

import (
	"roomd/transport/protocol"
)

// These methods change a room by what the server says of it. All are called with the mutex of rooms
// held.

// noSeat is the seat of a member of whom no list is known yet: one who was moved here.
const noSeat = -1

// joinedLocked takes over the reply to a join.
func (r *Room) joinedLocked(reply *protocol.Reply) {
	v := &r.replica.view
	v.Member = true
	if reply.Seat != nil {
		v.Seat = *reply.Seat
	}
	for _, u := range reply.Users {
		if u.Seat == v.Seat {
			r.rooms.user = u.User
		}
	}
	r.listLocked(reply)
}

// listLocked takes over what a reply lists. Readers hear of it unless they had all of it.
func (r *Room) listLocked(reply *protocol.Reply) {
	v := &r.replica.view
	if r.synced && v.Epoch == reply.Epoch && v.Version == reply.Version {
		return
	}
	r.replica.replace(reply.Epoch, reply.Version, reply.Users, reply.Data, reply.Settings)
	r.syncedLocked()
}

func (r *Room) eventLocked(e *protocol.Event) {
	if e.Event == protocol.EventChanges && !r.synced {
		return // a list comes, which has these changes
	}
	defer r.showLocked()
	switch r.replica.apply(e) {
	case applied:
		for _, c := range e.Changes {
			r.tellLocked(Change{Change: c, Epoch: e.Epoch, Version: e.Version})
		}
	case replaced:
		r.seatLocked()
		r.syncedLocked()
	case missed:
		r.synced = false
		if !r.asking {
			r.asking = true
			r.client.resync(r)
		}
	}
}

// syncedLocked records that the replica was replaced by what the server has.
func (r *Room) syncedLocked() {
	r.synced = true
	r.tellLocked(r.snapshotLocked())
	r.showLocked()
}

// seatLocked finds the own seat in a snapshot: after a failure, or a move, it may be another.
func (r *Room) seatLocked() {
	v := &r.replica.view
	if u, ok := v.User(r.rooms.user); ok && v.Member {
		v.Seat = u.Seat
	}
}

func (r *Room) snapshotLocked() Change {
	view := r.replica.share()
	return Change{Change: protocol.Change{Type: ChangeSnapshot}, Epoch: view.Epoch, Version: view.Version, View: &view}
}

func (r *Room) tellLocked(c Change) {
	for f := range r.feeds {
		f.put(c)
	}
}

// loseLocked ends the membership. A client that the server moves is a member of the other room from
// then on. One that has missed a move joins the other room only if the program says so.
func (r *Room) loseLocked(why *LostError) {
	v := &r.replica.view
	if !v.Member {
		return
	}
	v.Member, v.Seat = false, noSeat
	r.tellLocked(Change{
		Change: protocol.Change{Type: ChangeLost, Reason: why.Reason, Text: why.Text, To: protocol.Target{Room: why.To}},
		Epoch:  v.Epoch, Version: v.Version,
	})
	if why.To != "" && why.Err == nil {
		r.rooms.openLocked(why.To).replica.view.Member = true
	}
	if !v.Watching {
		r.endLocked(why)
	}
}

// refusedLocked ends a room that the server does not show any more.
func (r *Room) refusedLocked(why *LostError) {
	if r.loseLocked(why); r.err == nil {
		r.endLocked(why)
	}
}

// endLocked ends the room for good.
func (r *Room) endLocked(why error) {
	if r.err != nil {
		return
	}
	r.err = why
	delete(r.rooms.byID, r.id)
	close(r.done)
	r.showLocked()
	r.client.status.notify() // requests may wait for the room
}
