package transport

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"roomd/room"
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

// written describes what a writer would write now.
func written(o *outbox) string {
	var parts []string
	for {
		reply, events := o.next()
		switch {
		case reply != nil:
			f, _ := protocol.DecodeFrame(reply[bytes.IndexByte(reply, '{'):])
			parts = append(parts, fmt.Sprint("reply ", f.(*protocol.Reply).Version))
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
			return strings.Join(parts, ", ")
		}
	}
}

func TestRepliesAndEventsFormOneSequence(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(o *outbox)
		want string
	}{
		{"a join: events behind its reply only, after it", func(o *outbox) {
			o.streams.open("42")
			for v := uint64(1); v <= 4; v++ {
				o.streams.push(change(v))
			}
			listed(o, listAt(3))
			o.streams.push(change(5))
		}, "reply 3, events 4+5"},
		{"a room began while its emptiness was read", func(o *outbox) {
			o.streams.open("42")
			o.streams.hold("42")
			o.streams.push(change(1))
			o.streams.push(change(2))
			none := listAt(0)
			none.Epoch = ""
			o.streams.replyList(none)
			o.streams.release("42")
			o.streams.push(change(3))
		}, "reply 0, events 1+2+3"},
		{"what came of a room that has gone since", func(o *outbox) {
			o.streams.open("42")
			o.streams.hold("42")
			o.streams.push(change(2))
			none := listAt(0)
			none.Epoch = ""
			o.streams.replyList(none)
			o.streams.release("42")
		}, "reply 0"},
		{"a slow client: events are merged in the place of the first one", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.push(change(4))
			o.push(replyFrame(leaveAt(99)))
			o.streams.push(change(5))
		}, "reply 3, events 4+5, reply 99"},
		{"users: what is queued and in the list is dropped", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.push(change(4))
			o.streams.hold("42")
			o.streams.push(change(5))
			o.streams.push(change(6))
			listed(o, listAt(5))
		}, "reply 3, reply 5, events 6"},
		{"a refused request: held events go on", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.hold("42")
			o.streams.push(change(4))
			o.push(replyFrame(leaveAt(99)))
			o.streams.release("42")
			o.streams.push(change(5))
		}, "reply 3, reply 99, events 4+5"},
		{"nothing twice, nothing old", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.push(change(3))
			o.streams.push(change(4))
			o.streams.push(change(4))
			o.streams.push(snapshot("e", 4))
		}, "reply 3, events 4"},
		{"a snapshot stands for what is pending", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.push(change(4))
			o.streams.push(snapshot("e", 9))
			o.streams.push(change(10))
			o.streams.push(snapshot("new", 1))
		}, "reply 3, events =1"},
		{"a reply of a new epoch: changes of the earlier one are dropped", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.hold("42")
			o.streams.push(change(4))
			anew := listAt(1)
			anew.Epoch = "new"
			listed(o, anew)
		}, "reply 3, reply 1"},
		{"the end: what is pending is written, and nothing more", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.push(change(4))
			o.streams.end("42")
			o.streams.push(change(5))
			o.push(replyFrame(leaveAt(9)))
		}, "reply 3, events 4, reply 9"},
		{"the end while a request runs", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.hold("42")
			o.streams.push(change(4))
			o.streams.push(change(5))
			o.streams.end("42")
			o.streams.push(change(6))
			listed(o, listAt(4))
			o.streams.push(change(7))
		}, "reply 3, reply 4, events 5"},
		{"the end, and a new beginning while a request runs", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.hold("42")
			o.streams.push(change(4))
			o.streams.end("42")
			o.streams.open("42")
			o.streams.push(change(5))
			o.streams.push(change(6))
			listed(o, listAt(5))
		}, "reply 3, events 4, reply 5, events 6"},
		{"after a leave nothing comes", func(o *outbox) {
			o.streams.open("42")
			listed(o, listAt(3))
			o.streams.push(change(4))
			o.streams.drop("42")
			o.push(replyFrame(leaveAt(5)))
			o.streams.push(change(6))
		}, "reply 3, reply 5"},
	} {
		o := newOutbox(func() {}, defaultMaxQueue)
		tt.run(o)
		if got := written(o); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// While a request about the room runs, the writer does not write the room's events.
func TestHeldEventsAreNotWritten(t *testing.T) {
	o := newOutbox(func() {}, defaultMaxQueue)
	o.streams.open("42")
	listed(o, listAt(3))
	o.streams.push(change(4))
	o.streams.hold("42")
	if got := written(o); got != "reply 3" {
		t.Errorf("held: %s", got)
	}
	o.streams.release("42")
	if got := written(o); got != "events 4" {
		t.Errorf("released: %s", got)
	}
}

// Nothing of the room comes behind the event lost, unless the client watches. Then the events go on.
func TestALostSeatIsReported(t *testing.T) {
	frames := func(o *outbox) (list []string) {
		for {
			frame, events := o.next()
			switch {
			case frame != nil:
				list = append(list, string(frame[bytes.IndexByte(frame, '{'):]))
			case events != nil:
				list = append(list, fmt.Sprint("events to ", events[len(events)-1].Version))
			default:
				return list
			}
		}
	}
	const lost = `{"event":"lost","room":"42","reason":"room_full"}`
	o := newOutbox(func() {}, defaultMaxQueue)
	o.streams.open("42")
	listed(o, listAt(1))
	frames(o)
	o.streams.push(change(2))
	o.streams.lost("42", lostEvent{reason: protocol.CodeRoomFull}, false)
	o.streams.push(change(3)) // before the room has stopped its events
	o.streams.end("42")
	if got := frames(o); len(got) != 1 || got[0] != lost {
		t.Errorf("got %q", got)
	}
	o.streams.open("42")
	listed(o, listAt(3))
	frames(o)
	o.streams.push(change(4))
	o.streams.lost("42", lostEvent{reason: protocol.CodeRoomFull}, true)
	o.streams.push(change(5))
	if got := frames(o); len(got) != 2 || got[0] != lost || got[1] != "events to 5" {
		t.Errorf("a watcher got %q", got)
	}
}

// listed is a request that gets a reply with a list.
func listed(o *outbox, r *protocol.Reply) {
	o.streams.replyList(r)
	o.streams.release(r.Room)
}
