package client

import (
	"roomd/transport/protocol"
)

// This file tracks the client's place in a room: a membership, a watch, both, or none any more. The reading
// goroutine of the current connection changes it, frame by frame, with the client's mutex held.
//
// A move is announced by the `lost` of the old room and completed by a snapshot of the new one. Replies to a
// join or a leave that crossed the move may come before, between or after them. So if the client leaves a room
// where a move is announced, it is no member according to the reply; a later snapshot makes it a member again.

// noSeat is the seat of a member without a list of the room yet: the client was moved there.
const noSeat = -1

// openLocked returns the room with that id, and creates it if necessary.
func (c *Client) openLocked(id string) *Room {
	r := c.rooms[id]
	if r == nil {
		r = &Room{id: id, client: c, done: make(chan struct{}), replica: replica{feeds: make(map[*feed]struct{})}}
		r.replica.view.Seat = noSeat
		c.rooms[id] = r
	}
	return r
}

// event applies an event of the server.
func (c *Client) event(e *protocol.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rooms[e.Room]
	switch e.Event {
	case protocol.EventChanges:
		// A replica that is not synced waits for a list, which includes these changes.
		if r != nil && r.replica.synced && !r.replica.apply(e, c.user) {
			r.restoreLocked()
		}
		return // no request waits for changes
	case protocol.EventSnapshot:
		c.snapshotLocked(r, e)
	case protocol.EventLost:
		c.lostLocked(r, &LostError{Room: e.Room, Reason: e.Reason, Text: e.Text, To: e.To})
	case protocol.EventUnwatched:
		if r != nil {
			r.unwatchedLocked(&LostError{Room: e.Room, Reason: e.Reason})
		}
	case protocol.EventNode:
		if c.degraded = e.Degraded; c.session != nil {
			c.state = c.connectedLocked()
		}
	}
	c.notifyLocked()
}

// snapshotLocked applies a snapshot of r, which is nil if the client is not in that room. Then, and after the
// announcement of a move, the snapshot decides whether the client is a member.
func (c *Client) snapshotLocked(r *Room, e *protocol.Event) {
	if r == nil || r.moved {
		listed := View{Users: e.Users}
		if _, member := listed.User(c.user); member {
			r = c.openLocked(e.Room)
			r.memberLocked()
		}
	}
	if r != nil {
		r.moved = false
		r.replica.replace(e.Epoch, e.Version, &e.State, c.user)
	}
}

// lostLocked ends the membership in r, which is nil if the room has ended. A client that was moved becomes a
// member of the other room.
func (c *Client) lostLocked(r *Room, why *LostError) {
	if r != nil {
		r.loseLocked(why)
	}
	if why.To != "" {
		to := c.openLocked(why.To)
		to.moved = true
		if !to.replica.view.Member {
			to.replica.view.Seat = noSeat
			to.memberLocked()
		}
	}
}

func (r *Room) memberLocked() {
	r.replica.view.Member, r.joined, r.lost = true, true, nil
}

// awaitsSnapshotLocked reports whether the client was moved here and has no snapshot yet.
func (r *Room) awaitsSnapshotLocked() bool {
	return r.moved && r.replica.view.Member && r.replica.view.Seat == noSeat
}

// enteredLocked applies the reply to a join, a match, a watch or a users request.
func (r *Room) enteredLocked(action string, reply *protocol.Reply) {
	v := &r.replica.view
	switch action {
	case protocol.ActionJoin, protocol.ActionMatch:
		r.memberLocked()
		if reply.Seat != nil {
			v.Seat = *reply.Seat
		}
		for _, u := range reply.Users {
			if u.Seat == v.Seat {
				r.client.user = u.User
			}
		}
	case protocol.ActionWatch:
		v.Watching, r.watched = true, true
	}
	// Messages come after the snapshot, so no reader gets them twice.
	defer r.replica.hear(reply)
	if !r.replica.synced || v.Epoch != reply.Epoch || v.Version != reply.Version {
		r.replica.replace(reply.Epoch, reply.Version, &reply.State, r.client.user)
	}
}

// leftLocked applies the reply to a leave. If the client was no member, it returns the reason, or nil if a
// failure had removed the user: the server then does not restore the membership.
func (r *Room) leftLocked(reply *protocol.Reply) error {
	c := r.client
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

// unwatchedLocked ends the watch.
func (r *Room) unwatchedLocked(why error) {
	r.replica.view.Watching, r.watched = false, false
	r.endIfUnusedLocked(why)
}

// loseLocked ends the membership, and tells the readers.
func (r *Room) loseLocked(why *LostError) {
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
	r.replica.notify()
	r.endIfUnusedLocked(why)
}

// endIfUnusedLocked ends the room if the client is no member and does not watch.
func (r *Room) endIfUnusedLocked(why error) {
	if v := &r.replica.view; !v.Member && !v.Watching {
		r.endLocked(why)
	}
}

// endLocked ends the room.
func (r *Room) endLocked(why error) {
	if r.err != nil {
		return
	}
	r.err = why
	delete(r.client.rooms, r.id)
	close(r.done)
	r.replica.notify()
	r.client.notifyLocked() // requests may wait for the room
}

// disconnectedLocked records that the connection has ended. The room shows its last state.
func (r *Room) disconnectedLocked() {
	r.replica.synced, r.joined, r.watched, r.moved, r.restoring = false, false, false, false, false
}

// restoredLocked reports whether the present connection has the membership and the watch.
func (r *Room) restoredLocked() bool {
	v := &r.replica.view
	return (!v.Member || r.joined) && (!v.Watching || r.watched)
}

// restoreLocked starts to restore what the current connection lacks of the room.
func (r *Room) restoreLocked() {
	if s := r.client.session; s != nil && !r.restoring {
		r.restoring = true
		s.goroutines.Go(func() { s.restore(r) })
	}
}

// missing returns the next request that restores the room, or nil if the room is restored.
func (s *session) missing(r *Room) *call {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	v := &r.replica.view
	var k *call
	switch {
	case r.err == nil && v.Member && !r.joined:
		k = joinCall(r.id, nil)
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
	k.apply = r.client.locked(func(reply *protocol.Reply) { s.restoredByLocked(r, k.req.Action, reply) })
	return k
}

// restoredByLocked applies the reply to a request of missing.
func (s *session) restoredByLocked(r *Room, action string, reply *protocol.Reply) {
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
