package outbox

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

func change(version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
		Changes: []room.Change{{Type: room.KindJoin, User: fmt.Sprint("u", version), Seat: int(version)}}}
}

func snapshot(epoch string, version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: epoch, Version: version, Snapshot: &room.Snapshot{Epoch: epoch, Version: version}}
}

func listAt(version uint64) *protocol.Reply {
	return &protocol.Reply{ID: new(int64), Room: "42", Epoch: "e", Version: version, Users: []protocol.Seated{}}
}

func leaveAt(version uint64) *protocol.Reply {
	return &protocol.Reply{ID: new(int64), Room: "43", Epoch: "e", Version: version}
}

// box is an outbox with rooms by their ids.
type box struct {
	*Outbox
	byID map[string]*Room
}

func newBox(start func(), max int) *box { return &box{New(start, max), make(map[string]*Room)} }

func (o *box) push(e *room.Event) bool { return o.byID[e.Room] == nil || o.byID[e.Room].Push(e) }
func (o *box) hold(id string)          { o.byID[id].Hold() }
func (o *box) release(id string)       { o.byID[id].Release() }
func (o *box) end(id string)           { o.byID[id].End() }
func (o *box) drop(id string)          { o.byID[id].Drop() }
func (o *box) replyList(r *protocol.Reply) {
	o.byID[r.Room].ReplyList(r.Epoch, r.Version, frames.Reply(r))
}

// open opens a room, behind what is left of an earlier one.
func (o *box) open(id string) {
	o.byID[id] = o.Open(id)
}

// written describes what a writer would write now.
func written(o *box) string {
	var parts []string
	for {
		reply, events := o.Next()
		switch {
		case reply != nil:
			switch f, _ := protocol.DecodeFrame(reply[bytes.IndexByte(reply, '{'):]); f := f.(type) {
			case *protocol.Reply:
				parts = append(parts, fmt.Sprint("reply ", f.Version))
			case *protocol.Event:
				parts = append(parts, f.Event)
			}
		case events != nil:
			var versions []string
			for _, e := range events {
				sign := ""
				if e.Snapshot != nil {
					sign = "="
				}
				versions = append(versions, fmt.Sprint(sign, e.Version))
			}
			parts = append(parts, "events "+strings.Join(versions, "+"))
		default:
			for _, stale := range o.TakeStale() {
				parts = append(parts, "snapshot of "+stale.ID+" wanted")
			}
			return strings.Join(parts, ", ")
		}
	}
}

func TestRepliesAndEventsFormOneSequence(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(o *box)
		want string
	}{
		{"a join: events behind its reply only, after it", func(o *box) {
			o.open("42")
			for v := uint64(1); v <= 4; v++ {
				o.push(change(v))
			}
			listed(o, listAt(3))
			o.push(change(5))
		}, "reply 3, events 4+5"},
		{"a room began while its emptiness was read", func(o *box) {
			o.open("42")
			o.hold("42")
			o.push(change(1))
			o.push(change(2))
			none := listAt(0)
			none.Epoch = ""
			o.replyList(none)
			o.release("42")
			o.push(change(3))
		}, "reply 0, events 1+2+3"},
		{"what came of a room that has gone since", func(o *box) {
			o.open("42")
			o.hold("42")
			o.push(change(2))
			none := listAt(0)
			none.Epoch = ""
			o.replyList(none)
			o.release("42")
		}, "reply 0"},
		{"a slow client: events are merged in the place of the first one", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.push(change(4))
			o.Push(frames.Reply(leaveAt(99)))
			o.push(change(5))
		}, "reply 3, events 4+5, reply 99"},
		{"users: what is queued and in the list is dropped", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.push(change(4))
			o.hold("42")
			o.push(change(5))
			o.push(change(6))
			listed(o, listAt(5))
		}, "reply 3, reply 5, events 6"},
		{"a refused request: held events go on", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.hold("42")
			o.push(change(4))
			o.Push(frames.Reply(leaveAt(99)))
			o.release("42")
			o.push(change(5))
		}, "reply 3, reply 99, events 4+5"},
		{"nothing twice, nothing old", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.push(change(3))
			o.push(change(4))
			o.push(change(4))
			o.push(snapshot("e", 4))
		}, "reply 3, events 4"},
		{"a snapshot stands for what is pending", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.push(change(4))
			o.push(snapshot("e", 9))
			o.push(change(10))
			o.push(snapshot("new", 1))
		}, "reply 3, events =1"},
		{"a reply of a new epoch: changes of the earlier one are dropped", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.hold("42")
			o.push(change(4))
			anew := listAt(1)
			anew.Epoch = "new"
			listed(o, anew)
		}, "reply 3, reply 1"},
		{"the end: what is pending is written, and nothing more", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.push(change(4))
			o.end("42")
			o.push(change(5))
			o.Push(frames.Reply(leaveAt(9)))
		}, "reply 3, events 4, reply 9"},
		{"the end while a request runs", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.hold("42")
			o.push(change(4))
			o.push(change(5))
			o.end("42")
			o.push(change(6))
			listed(o, listAt(4))
			o.push(change(7))
		}, "reply 3, reply 4, events 5"},
		{"the end, and a new beginning while a request runs", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.hold("42")
			o.push(change(4))
			o.end("42")
			o.open("42")
			o.push(change(5))
			o.push(change(6))
			listed(o, listAt(5))
		}, "reply 3, events 4, reply 5, events 6"},
		{"after a leave nothing comes", func(o *box) {
			o.open("42")
			listed(o, listAt(3))
			o.push(change(4))
			o.drop("42")
			o.Push(frames.Reply(leaveAt(5)))
			o.push(change(6))
		}, "reply 3, reply 5"},
	} {
		o := newBox(func() {}, 256<<10)
		tt.run(o)
		if got := written(o); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// While a request about the room runs, the writer does not write the room's events.
func TestHeldEventsAreNotWritten(t *testing.T) {
	o := newBox(func() {}, 256<<10)
	o.open("42")
	listed(o, listAt(3))
	o.push(change(4))
	o.hold("42")
	if got := written(o); got != "reply 3" {
		t.Errorf("held: %s", got)
	}
	o.release("42")
	if got := written(o); got != "events 4" {
		t.Errorf("released: %s", got)
	}
}

// listed is a request that gets a reply with a list.
func listed(o *box, r *protocol.Reply) {
	o.replyList(r)
	o.release(r.Room)
}
