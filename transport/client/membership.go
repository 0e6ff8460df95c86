package client

import (
	"roomd/transport/protocol"
)

// membership says whether the client is a member of a room, watches it, or both, and has the copy of the room. The
// reading goroutine of the current connection changes it, frame by frame, with the link's mutex held.
//
// The server announces a move by the `lost` of the old room, and completes it by a snapshot of the new one. The reply
// to a join or a leave can come before, between or after these. So the reply to a leave of the new room ends the
// membership there, and if the snapshot comes later, it makes the client a member again.
type membership struct {
	id   string
	link *link
	done chan struct{} // closed when err is set

	// The link's mutex guards the rest.
	replica   replica
	joined    bool  // the current connection has the membership
	watched   bool  // the current connection has the watch
	moved     bool  // a move to this room was announced, and its snapshot has not come yet
	restoring bool  // a goroutine of the session restores the room
	lost      error // why the last membership was lost, or nil
	err       error // why the room has ended
}

// noSeat is the seat of a member without a list of the room yet: the client was moved there.
const noSeat = -1

// openLocked returns the room with that id, and creates it if necessary.
func (l *link) openLocked(id string) *Room {
	r := l.rooms[id]
	if r == nil {
		r = &Room{membership{id: id, link: l, done: make(chan struct{}), replica: newReplica()}}
		l.rooms[id] = r
	}
	return r
}

func (l *link) event(e *protocol.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rooms[e.Room]
	switch e.Event {
	case protocol.EventChanges:
		// A replica that is not synced waits for a list, which includes these changes.
		if r != nil && r.replica.synced && !r.replica.apply(e, l.user) {
			r.restoreLocked()
		}
		return // no request waits for changes
	case protocol.EventSnapshot:
		l.snapshotLocked(r, e)
	case protocol.EventLost:
		l.lostLocked(r, &LostError{Room: e.Room, Reason: e.Reason, Text: e.Text, To: e.To})
	case protocol.EventUnwatched:
		if r != nil {
			r.unwatchedLocked(&LostError{Room: e.Room, Reason: e.Reason})
		}
	case protocol.EventNode:
		if l.degraded = e.Degraded; l.session != nil {
			l.state = l.connectedLocked()
		}
	}
	l.changed.notify()
}

// snapshotLocked applies a snapshot of r, which is nil if the client is not in that room. A snapshot that lists the
// client makes it a member if r is nil, or if a move to r was announced.
func (l *link) snapshotLocked(r *Room, e *protocol.Event) {
	if r == nil || r.moved {
		listed := View{Users: e.Users}
		if _, member := listed.User(l.user); member {
			r = l.openLocked(e.Room)
			r.memberLocked()
		}
	}
	if r != nil {
		r.moved = false
		r.replica.replace(e.Epoch, e.Version, &e.State, l.user)
	}
}

// lostLocked ends the membership in r, which is nil if the room has ended. A client that was moved becomes a member
// of the other room.
func (l *link) lostLocked(r *Room, why *LostError) {
	if r != nil {
		r.loseLocked(why)
	}
	if why.To != "" {
		to := l.openLocked(why.To)
		to.moved = true
		if !to.replica.view.Member {
			to.replica.view.Seat = noSeat
			to.memberLocked()
		}
	}
}

func (r *membership) memberLocked() {
	r.replica.view.Member, r.joined, r.lost = true, true, nil
}

// awaitsSnapshotLocked reports whether the client was moved here and has no snapshot yet.
func (r *membership) awaitsSnapshotLocked() bool {
	return r.moved && r.replica.view.Member && r.replica.view.Seat == noSeat
}

// enteredLocked applies the reply to a join, a match, a watch or a users request.
func (r *membership) enteredLocked(action string, reply *protocol.Reply) {
	v := &r.replica.view
	switch action {
	case protocol.ActionJoin, protocol.ActionMatch:
		r.memberLocked()
		if reply.Seat != nil {
			v.Seat = *reply.Seat
		}
		for _, u := range reply.Users {
			if u.Seat == v.Seat {
				r.link.user = u.User
			}
		}
	case protocol.ActionWatch:
		v.Watching, r.watched = true, true
	}
	// Messages come after the snapshot, so no reader gets them twice.
	defer r.replica.hear(reply)
	if !r.replica.synced || v.Epoch != reply.Epoch || v.Version != reply.Version {
		r.replica.replace(reply.Epoch, reply.Version, &reply.State, r.link.user)
	}
}

// leftLocked applies the reply to a leave. If the server says that the user was no member, it returns the reason, or
// the server's error if none is known. If a failure had removed a member, the leave is done: it returns nil.
func (r *membership) leftLocked(reply *protocol.Reply) error {
	c := r.link
	refused := reply.Error != nil
	if refused && !reply.Error.Is(protocol.ErrNotMember) && !reply.Error.Is(protocol.ErrUnknown) {
		return reply.Error
	}
	now := c.rooms[r.id] // r, or a newer room if r was lost before the reply came
	switch {
	case refused && reply.Reason != "":
		why := &LostError{Room: r.id, Reason: reply.Reason, Text: reply.Text, To: reply.To}
		c.lostLocked(now, why)
		return why
	case refused && r.lost != nil:
		return r.lost
	case now != nil && now.replica.view.Member:
		now.replica.view.Member, now.joined = false, false
		now.endIfUnusedLocked(ErrLeft)
	case refused:
		return reply.Error
	}
	return nil
}

func (r *membership) unwatchedLocked(why error) {
	r.replica.view.Watching, r.watched = false, false
	r.endIfUnusedLocked(why)
}

// loseLocked ends the membership, and tells the readers.
func (r *membership) loseLocked(why *LostError) {
	v := &r.replica.view
	if !v.Member {
		return
	}
	v.Member, v.Seat, r.joined, r.lost = false, noSeat, false, why
	r.replica.tell(Change{
		Change: protocol.Change{Type: ChangeLost, Reason: why.Reason, Text: why.Text,
			To: protocol.Target{Room: why.To}},
		Epoch: v.Epoch, Version: v.Version,
	})
	r.replica.changed.notify()
	r.endIfUnusedLocked(why)
}

// endIfUnusedLocked ends the room if the client is no member and does not watch.
func (r *membership) endIfUnusedLocked(why error) {
	if v := &r.replica.view; !v.Member && !v.Watching {
		r.endLocked(why)
	}
}

// endLocked ends the room for the reason why, unless it has ended.
func (r *membership) endLocked(why error) {
	if r.err != nil {
		return
	}
	r.err = why
	delete(r.link.rooms, r.id)
	close(r.done)
	r.replica.changed.notify()
	r.link.changed.notify() // requests may wait for the room
}

// disconnectedLocked records that the connection has ended. The room shows its last state.
func (r *membership) disconnectedLocked() {
	r.replica.synced, r.joined, r.watched, r.moved, r.restoring = false, false, false, false, false
}

// restoredLocked reports whether the current connection has the membership and the watch.
func (r *membership) restoredLocked() bool {
	v := &r.replica.view
	return (!v.Member || r.joined) && (!v.Watching || r.watched)
}

// restoreLocked starts to restore the membership, watch or list that the current connection lacks.
func (r *membership) restoreLocked() {
	if s := r.link.session; s != nil && !r.restoring {
		r.restoring = true
		s.goroutines.Go(func() { s.restore(r) })
	}
}

// missing returns the next request that restores the room, or nil if the room is restored or has ended.
func (s *session) missing(r *membership) *call {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	v := &r.replica.view
	var k *call
	switch {
	case r.err == nil && v.Member && !r.joined:
		k = plainCall(protocol.ActionJoin, r.id)
		if v.Seat != noSeat {
			k.req.Seat, k.req.Expect, k.req.Epoch = new(v.Seat), new(v.Version), v.Epoch
		}
	case r.err == nil && v.Watching && !r.watched:
		if k = plainCall(protocol.ActionWatch, r.id); v.Settings.History > 0 {
			// asks for messages that were said meanwhile
			k.req.Expect, k.req.Epoch = new(v.Version), v.Epoch
		}
	case r.err == nil && !r.replica.synced:
		k = plainCall(protocol.ActionUsers, r.id)
	default:
		r.restoring = false
		return nil
	}
	k.apply = r.link.locked(func(reply *protocol.Reply) { s.restoredByLocked(r, k.req.Action, reply) })
	return k
}

// restoredByLocked applies the reply to a request of missing.
func (s *session) restoredByLocked(r *membership, action string, reply *protocol.Reply) {
	switch {
	case r.err != nil:
	case reply.Error == nil:
		r.enteredLocked(action, reply)
	case !s.later(reply.Error):
		why := &LostError{Room: r.id, Reason: reply.Error.Code, Text: reply.Error.Message, Err: reply.Error}
		if reply.Reason != "" {
			why.Reason, why.Text, why.To = reply.Reason, reply.Text, reply.To
		}
		if action != protocol.ActionWatch {
			r.loseLocked(why)
		}
		if action != protocol.ActionJoin {
			r.unwatchedLocked(why)
		}
	}
}
