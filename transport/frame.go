package transport

import (
	"encoding/binary"
	"sync"

	"github.com/gorilla/websocket"

	"roomd/room"
	"roomd/transport/protocol"
)

// Frames are encoded by hand. So one write to the socket carries several of them, where gorilla's
// connection needs one for each; and an event to four clients takes 0.4 µs and 0.5 KB, where
// gorilla's PreparedMessage takes 4.3 µs and 12 KB (BenchmarkEventFrame).

// final says that a frame is a whole message (RFC 6455, section 5.2).
const final = 0x80

// headerRoom is the longest header of a server's frame, in bytes.
const headerRoom = 10

// About how long what frames hold is, in bytes, so that they need not grow.
const (
	replySize  = 160
	eventSize  = 112
	changeSize = 48
)

// newFrame returns a text frame with room for its header. The caller appends the content,
// about size bytes, and calls seal.
func newFrame(size int) []byte { return make([]byte, headerRoom, headerRoom+size) }

// seal puts the header before the content of a text frame.
func seal(frame []byte) []byte {
	var space [headerRoom]byte
	header := append(space[:0], final|websocket.TextMessage)
	switch n := len(frame) - headerRoom; {
	case n < 126:
		header = append(header, byte(n))
	case n < 1<<16:
		header = binary.BigEndian.AppendUint16(append(header, 126), uint16(n))
	default:
		header = binary.BigEndian.AppendUint64(append(header, 127), uint64(n))
	}
	frame = frame[headerRoom-len(header):]
	copy(frame, header)
	return frame
}

// controlFrame returns a frame of that kind. The content has at most 125 bytes.
func controlFrame(kind int, content []byte) []byte {
	return append([]byte{final | byte(kind), byte(len(content))}, content...)
}

func replyFrame(r *protocol.Reply) []byte {
	return seal(protocol.AppendReply(newFrame(replySize+len(r.List)), r))
}

// lostEvent is why a session has no seat in a room any more.
type lostEvent struct {
	reason string // an error code, or that of a leave
	text   string // in the words of who kicked the user
	to     string // the room to which the user was moved
}

func (l lostEvent) frame(id string) []byte {
	return seal(protocol.AppendEvent(newFrame(eventSize), &protocol.Event{
		Event: protocol.EventLost, Room: id, Reason: l.reason, Text: l.text, To: l.to,
	}))
}

// changesFrame returns one frame for events that follow each other, as a user may see them.
func changesFrame(user string, events ...*room.Event) []byte {
	first, last := events[0], events[len(events)-1]
	merged := protocol.Event{Event: protocol.EventChanges, Room: first.Room, Epoch: first.Epoch, Version: last.Version, From: first.From}
	merged.Changes = make([]protocol.Change, 0, len(first.Changes))
	for _, e := range events {
		for _, change := range e.Changes {
			if !change.IsFor(user) {
				continue // its version tells that there was something
			}
			merged.Changes = append(merged.Changes, changeOf(&change))
		}
	}
	return seal(protocol.AppendEvent(newFrame(eventSize+changeSize*len(merged.Changes)), &merged))
}

func changeOf(c *room.Change) protocol.Change {
	change := protocol.Change{Type: string(c.Type), User: c.User, Seat: c.Seat, Reason: string(c.Reason), Away: c.Away}
	if d := c.Detail; d != nil {
		change.Ready, change.Data, change.Text = d.Ready, protocol.JSON(d.Data), d.Text
		change.To = protocol.Target{Room: d.Target, Users: d.To}
		if d.Settings != nil {
			change.Settings = newSettings(*d.Settings)
		}
	}
	return change
}

// settingsOf returns settings as clients see them: nil if all of them are zero.
func settingsOf(s room.Settings) *protocol.Settings {
	if s == (room.Settings{}) {
		return nil
	}
	return newSettings(s)
}

func newSettings(s room.Settings) *protocol.Settings {
	return &protocol.Settings{Capacity: s.Capacity, Closed: s.Closed, Keep: s.Keep, Data: string(s.Data)}
}

// eventFrame is an event's frame, encoded once for all clients that get it.
type eventFrame struct {
	event   *room.Event
	size    int  // about how many bytes its changes take; 0 for a snapshot
	private bool // a message in it is not for everybody

	encode sync.Once
	bytes  []byte // set by encode
}

func eventFrameOf(e *room.Event) *eventFrame {
	return e.Shared(func() any { return newEventFrame(e) }).(*eventFrame)
}

func newEventFrame(e *room.Event) *eventFrame {
	f := &eventFrame{event: e, size: changesSize(e, func(*room.Change) bool { return true })}
	for i := range e.Changes {
		if d := e.Changes[i].Detail; d != nil && d.To != nil {
			f.private = true
		}
	}
	return f
}

// sizeFor returns about how many bytes the changes take that a user may see.
func (f *eventFrame) sizeFor(user string) int {
	if !f.private {
		return f.size
	}
	return changesSize(f.event, func(c *room.Change) bool { return c.IsFor(user) })
}

// frameFor returns the event as a user may see it.
func (f *eventFrame) frameFor(user string) []byte {
	if f.private {
		return changesFrame(user, f.event)
	}
	return f.frame()
}

// frame returns the event as everybody may see it.
func (f *eventFrame) frame() []byte {
	f.encode.Do(func() {
		if f.event.Snapshot != nil {
			f.bytes = snapshotFrame(f.event)
		} else {
			f.bytes = changesFrame("", f.event)
		}
	})
	return f.bytes
}

// changesSize returns about how many bytes those changes take that are shown.
func changesSize(e *room.Event, shown func(*room.Change) bool) int {
	if e.Snapshot != nil {
		return 0
	}
	size := eventSize
	for i := range e.Changes {
		change := &e.Changes[i]
		if !shown(change) {
			continue
		}
		size += changeSize + len(change.User)
		if d := change.Detail; d != nil {
			size += len(d.Text) + len(d.Data)
			for _, user := range d.To {
				size += len(user)
			}
		}
	}
	return size
}
