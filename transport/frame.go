package transport

import (
	"encoding/binary"

	"github.com/gorilla/websocket"

	"roomd/room"
	"roomd/transport/protocol"
)

// Frames are put together here, and not by gorilla's connection: so several can go
// out at once, and one that many are told is made once and costs what it holds.
// (gorilla's prepared messages take 4 KiB, twice.)

// final says that a frame is all of its message (RFC 6455, section 5.2).
const final = 0x80

// headerRoom is what the header of a server's frame takes at most.
const headerRoom = 10

// About how long what is in frames is, so that they need not grow.
const (
	replySize  = 160
	eventSize  = 112
	changeSize = 48
)

// newFrame returns the beginning of a text frame, for content of about that size to
// be appended. It is for seal to end.
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

// controlFrame returns a frame of that kind with at most 125 bytes in it.
func controlFrame(kind int, content []byte) []byte {
	return append([]byte{final | byte(kind), byte(len(content))}, content...)
}

func replyFrame(r *protocol.Reply) []byte {
	return seal(protocol.AppendReply(newFrame(replySize+len(r.List)), r))
}

// changesSize returns how many bytes the frame of an event takes, about; none if it is
// a snapshot.
func changesSize(e *room.Event) int {
	if e.Snapshot != nil {
		return 0
	}
	size := eventSize
	for _, change := range e.Changes {
		size += changeSize + len(change.User)
	}
	return size
}

func snapshotFrame(e *room.Event) []byte {
	return seal(protocol.AppendEvent(newFrame(eventSize), &protocol.Event{
		Event: protocol.EventSnapshot, Room: e.Room, Epoch: e.Epoch, Version: e.Version,
		Count: e.Snapshot.Count(), Users: seated(e.Snapshot.Users()),
	}))
}

func lostFrame(id, reason string) []byte {
	return seal(protocol.AppendEvent(newFrame(eventSize), &protocol.Event{Event: protocol.EventLost, Room: id, Reason: reason}))
}

// changesFrame returns one frame for events that follow each other.
func changesFrame(events ...*room.Event) []byte {
	first, last := events[0], events[len(events)-1]
	told := protocol.Event{Event: protocol.EventChanges, Room: first.Room, Epoch: first.Epoch, Version: last.Version, From: first.From}
	told.Changes = make([]protocol.Change, 0, len(first.Changes))
	for _, e := range events {
		for _, change := range e.Changes {
			told.Changes = append(told.Changes, protocol.Change{Type: string(change.Type), User: change.User, Seat: change.Seat})
		}
	}
	return seal(protocol.AppendEvent(newFrame(eventSize+changeSize*len(told.Changes)), &told))
}
