package client

import (
	"sync"

	"roomd/transport/protocol"
)

// rooms are the rooms of a client. The reading goroutine of the present connection changes them.
type rooms struct {
	client *Client

	mu   sync.Mutex
	byID map[string]*Room // guarded by mu: those that have not ended
	user string           // guarded by mu: the client's own name as the server writes it, once it is known
}

// get returns the room with that id, or nil. A room of which nothing is known yet is left out.
func (rs *rooms) get(id string) *Room {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.byID[id]; r != nil && r.replica.view.known() {
		return r
	}
	return nil
}

// known reports whether the view is what a server said.
func (v *View) known() bool { return v.Users != nil || v.Epoch != "" }

// all returns the rooms that have not ended.
func (rs *rooms) all() []*Room {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	list := make([]*Room, 0, len(rs.byID))
	for _, r := range rs.byID {
		list = append(list, r)
	}
	return list
}

// openLocked returns the room with that id, which begins if there is none.
func (rs *rooms) openLocked(id string) *Room {
	r := rs.byID[id]
	if r == nil {
		r = &Room{
			id: id, client: rs.client, rooms: rs, done: make(chan struct{}),
			restored: true, feeds: make(map[*feed]struct{}),
		}
		r.replica.view.Seat = noSeat
		rs.byID[id] = r
	}
	return r
}

// disconnected records that the connection has ended: what the rooms show is what was, until they
// are restored.
func (rs *rooms) disconnected() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byID {
		r.synced, r.restored, r.rejoined, r.rewatched = false, false, false, false
	}
}

// end ends all rooms.
func (rs *rooms) end(why error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byID {
		r.endLocked(why)
	}
}

// listed takes the list of a reply over, which belongs to a join or a watch. It returns the room.
func (rs *rooms) listed(action string, reply *protocol.Reply) *Room {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.openLocked(reply.Room)
	if action == protocol.ActionJoin {
		r.joinedLocked(reply)
	} else {
		r.replica.view.Watching = true
		r.listLocked(reply)
	}
	return r
}

// restored reports whether a request about a room need not wait. The error says why the room has
// ended. An id is that of a room that may not have begun.
func (rs *rooms) restored(r *Room, id string) (bool, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r != nil {
		return r.restored, r.err
	}
	r = rs.byID[id]
	return r == nil || r.restored, nil
}

// left records that the server has ended a membership or a watch.
func (rs *rooms) left(action, id string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[id]
	if r == nil {
		return
	}
	v, why := &r.replica.view, ErrLeft
	if action == protocol.ActionLeave {
		v.Member = false
	} else {
		v.Watching, why = false, ErrUnwatched
	}
	if !v.Member && !v.Watching {
		r.endLocked(why)
	}
}

// event takes an event over.
func (rs *rooms) event(e *protocol.Event) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[e.Room]
	switch {
	case r == nil:
	case e.Event == protocol.EventLost:
		r.loseLocked(&LostError{Room: e.Room, Reason: e.Reason, Text: e.Text, To: e.To})
	default:
		r.eventLocked(e)
	}
}
