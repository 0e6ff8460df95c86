package transport

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"roomd/room"
	"roomd/transport/protocol"
)

// write is the connection's only writer. It ends when the outbox is finished and
// empty, after a close frame if there is a reason to send one, or when the client
// cannot be written to.
func (c *conn) write() {
	ping := time.NewTicker(c.server.opts.PingInterval)
	defer ping.Stop()
	timeout := c.server.opts.WriteTimeout
	var last time.Time // when all has to be written, once nothing more will come
	for {
		reply, events, finished := c.out.next()
		if finished && last.IsZero() {
			last = time.Now().Add(timeout)
		}
		deadline := last
		if !finished {
			deadline = time.Now().Add(timeout)
		}
		var err error
		switch {
		case reply != nil:
			_ = c.ws.SetWriteDeadline(deadline)
			err = c.ws.WriteMessage(websocket.TextMessage, reply)
		case events != nil:
			_ = c.ws.SetWriteDeadline(deadline)
			err = c.writeEvents(events)
		case finished:
			if code, text, _ := c.closeReason(); code != 0 {
				_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), deadline)
			}
			return
		default:
			select {
			case <-c.out.wake:
			case <-ping.C: // maybe long after deadline
				err = c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(timeout))
			}
		}
		if err != nil {
			c.end(0, "") // wakes the reader
			c.out.finish()
			return
		}
	}
}

// writeEvents writes the events of one room, those that follow each other in one
// frame.
func (c *conn) writeEvents(events []*room.Event) error {
	for len(events) > 0 {
		n := 1
		for n < len(events) && follows(events[n], events[n-1]) {
			n++
		}
		var err error
		if n == 1 {
			err = c.ws.WritePreparedMessage(sharedBy(events[0]).frame())
		} else {
			err = c.ws.WriteMessage(websocket.TextMessage, merged(events[:n]))
		}
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

func follows(e, before *room.Event) bool {
	return e.Snapshot == nil && before.Snapshot == nil && e.Epoch == before.Epoch && e.From == before.Version
}

// shared is what is made of an event once for all who are told, each when it is
// first asked for.
type shared struct {
	frame func() *websocket.PreparedMessage
	users func() map[string]struct{} // of a snapshot
}

func sharedBy(e *room.Event) *shared {
	return e.Shared(func() any {
		return &shared{
			frame: sync.OnceValue(func() *websocket.PreparedMessage { return prepare(e) }),
			users: sync.OnceValue(func() map[string]struct{} { return usersOf(e) }),
		}
	}).(*shared)
}

// prepare returns the frame of an event.
func prepare(e *room.Event) *websocket.PreparedMessage {
	frame := merged([]*room.Event{e})
	if e.Snapshot != nil {
		frame = protocol.AppendEvent(nil, &protocol.Event{
			Event: protocol.EventSnapshot, Room: e.Room, Epoch: e.Epoch, Version: e.Version,
			Count: e.Snapshot.Count(), Users: seated(e.Snapshot.Users()),
		})
	}
	// Its only error is that of an unknown message type.
	m, _ := websocket.NewPreparedMessage(websocket.TextMessage, frame)
	return m
}

func usersOf(e *room.Event) map[string]struct{} {
	set := make(map[string]struct{}, e.Snapshot.Count())
	for _, u := range e.Snapshot.Users() {
		set[u.User] = struct{}{}
	}
	return set
}

// merged returns one frame for events that follow each other.
func merged(events []*room.Event) []byte {
	first, last := events[0], events[len(events)-1]
	frame := protocol.Event{Event: protocol.EventChanges, Room: first.Room, Epoch: first.Epoch, Version: last.Version, From: first.From}
	for _, e := range events {
		for _, change := range e.Changes {
			frame.Changes = append(frame.Changes, protocol.Change{Type: string(change.Type), User: change.User, Seat: change.Seat})
		}
	}
	return protocol.AppendEvent(nil, &frame)
}
