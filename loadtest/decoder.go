package loadtest

import (
	"bytes"
	"errors"
	"sync"

	"roomd/loadtest/history"
	"roomd/transport/protocol"
)

// message is a frame from a node, and what of it the checkers compare. Others may have it, too: it must not be changed.
type message struct {
	reply   *protocol.Reply
	event   *protocol.Event
	changes []history.Change
	users   []history.Member
}

// maxKept is how many bytes of frames a decoder keeps, twice.
const maxKept = 16 << 20

// decoder decodes frames, and what many get only once: the events of a room, and the lists of those who joined with the
// same commit. In a large room that is nearly everything, and each of its players would decode it again. Each compares
// all of it with its own picture of the room as before.
type decoder struct {
	mu        sync.Mutex
	kept, old map[string]*message // guarded by mu; by their bytes
	size      int                 // guarded by mu; of kept
}

// listStart is how the last part of a reply with a list begins. In a string it would have backslashes.
var listStart = []byte(`,"users":[`)

// decode decodes a frame, of which it keeps nothing.
func (d *decoder) decode(frame []byte) (*message, error) {
	if bytes.HasPrefix(frame, []byte(`{"event":`)) {
		return d.once("", frame)
	}
	if at := bytes.LastIndex(frame, listStart); at > 0 {
		list, err := d.once(`{"event":""`, frame[at:])
		if err == nil {
			m, err := decode(append(frame[:at:at], '}'))
			if err == nil && m.reply != nil {
				m.reply.Users, m.users = list.event.Users, list.users
				return m, nil
			}
		}
	}
	return decode(frame)
}

// once decodes what came before or may come again: a frame, or the end of one, to which start is added.
func (d *decoder) once(start string, frame []byte) (*message, error) {
	d.mu.Lock()
	m := d.kept[string(frame)]
	if m == nil {
		m = d.old[string(frame)]
	}
	d.mu.Unlock()
	if m != nil {
		return m, nil
	}
	m, err := decode(append([]byte(start), frame...))
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil || d.size > maxKept {
		d.kept, d.old, d.size = make(map[string]*message), d.kept, 0
	}
	d.kept[string(frame)] = m
	d.size += len(frame)
	return m, nil
}

// decode decodes a frame.
func decode(frame []byte) (*message, error) {
	f, err := protocol.DecodeFrame(frame)
	if err != nil {
		return nil, err
	}
	switch f := f.(type) {
	case *protocol.Reply:
		return &message{reply: f, users: toMembers(f.Users)}, nil
	case *protocol.Event:
		m := &message{event: f, users: toMembers(f.Users)}
		for i := range f.Changes {
			m.changes = append(m.changes, toChange(&f.Changes[i]))
		}
		return m, nil
	}
	return nil, errors.New("a frame that is neither a reply nor an event")
}
