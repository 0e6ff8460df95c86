package transport

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

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

func listReply(version uint64) *protocol.Reply {
	return &protocol.Reply{ID: new(int64), Room: "42", Epoch: "e", Version: version, Users: []protocol.Seated{}}
}

func leaveReply(version uint64) *protocol.Reply {
	return &protocol.Reply{ID: new(int64), Room: "43", Epoch: "e", Version: version}
}

// written describes what the writer would send now.
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
			o.open("42")
			for v := uint64(1); v <= 4; v++ {
				o.event(change(v))
			}
			o.replySnapshot(listReply(3))
			o.event(change(5))
		}, "reply 3, events 4+5"},
		{"a slow client: events are merged where the first one stands", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.event(change(4))
			o.reply(leaveReply(99))
			o.event(change(5))
		}, "reply 3, events 4+5, reply 99"},
		{"users: what is queued and in the list is dropped", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.event(change(4))
			o.hold("42")
			o.event(change(5))
			o.event(change(6))
			o.replySnapshot(listReply(5))
		}, "reply 3, reply 5, events 6"},
		{"a refused request: held events go on", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.hold("42")
			o.event(change(4))
			o.reply(leaveReply(99))
			o.release("42")
			o.event(change(5))
		}, "reply 3, reply 99, events 4+5"},
		{"nothing twice, nothing old", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.event(change(3))
			o.event(change(4))
			o.event(change(4))
			o.event(snapshot("e", 4))
		}, "reply 3, events 4"},
		{"a snapshot stands for what is pending", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.event(change(4))
			o.event(snapshot("e", 9))
			o.event(change(10))
			o.event(snapshot("new", 1))
		}, "reply 3, events =1"},
		{"a reply of a new epoch: changes of the earlier one are dropped", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.hold("42")
			o.event(change(4))
			anew := listReply(1)
			anew.Epoch = "new"
			o.replySnapshot(anew)
		}, "reply 3, reply 1"},
		{"the end: what has come is told, and nothing more", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.event(change(4))
			o.end("42")
			o.event(change(5))
			o.reply(leaveReply(9))
		}, "reply 3, events 4, reply 9"},
		{"the end while a request runs", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.hold("42")
			o.event(change(4))
			o.event(change(5))
			o.end("42")
			o.event(change(6))
			o.replySnapshot(listReply(4))
			o.event(change(7))
		}, "reply 3, reply 4, events 5"},
		{"the end, and a new beginning while a request runs", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.hold("42")
			o.event(change(4))
			o.end("42")
			o.open("42")
			o.event(change(5))
			o.event(change(6))
			o.replySnapshot(listReply(5))
		}, "reply 3, events 4, reply 5, events 6"},
		{"after a leave nothing comes", func(o *outbox) {
			o.open("42")
			o.replySnapshot(listReply(3))
			o.event(change(4))
			o.close("42")
			o.reply(leaveReply(5))
			o.event(change(6))
		}, "reply 3, reply 5"},
	} {
		o := newOutbox(func() {}, DefaultMaxQueue)
		tt.run(o)
		if got := written(o); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// While a request about the room runs, what the writer reaches stays pending.
func TestHeldEventsAreNotWritten(t *testing.T) {
	o := newOutbox(func() {}, DefaultMaxQueue)
	o.open("42")
	o.replySnapshot(listReply(3))
	o.event(change(4))
	o.hold("42")
	if got := written(o); got != "reply 3" {
		t.Errorf("held: %s", got)
	}
	o.release("42")
	if got := written(o); got != "events 4" {
		t.Errorf("released: %s", got)
	}
}

// held returns how many bytes the outbox says it keeps.
func held(o *outbox) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting.frames + o.taken.frames + o.waiting.changes + o.taken.changes
}

// The changes of all rooms count together, until they are written. A list that is
// written, or a snapshot, which all share, makes nobody too slow.
func TestTooSlow(t *testing.T) {
	const rooms, most = 3, 64 << 10
	o := newOutbox(func() {}, most)
	tell := func(v uint64) bool {
		e := change(v)
		e.Room = fmt.Sprint(v % rooms)
		return o.event(e)
	}
	for i := range rooms {
		o.open(fmt.Sprint(i))
		o.release(fmt.Sprint(i))
	}
	o.push(make([]byte, 2*most))
	v := uint64(1)
	for ; tell(v); v++ {
		if v > most {
			t.Fatal("events are queued without end")
		}
	}
	if least := uint64(most / 200); v < least {
		t.Errorf("too slow after %d events, not %d", v, least)
	}
	for range 100 {
		v++
		tell(v)
	}
	if n := held(o); n > 3*most+10*itemSize {
		t.Errorf("%d bytes are kept", n)
	}

	o = newOutbox(func() {}, most)
	o.open("42")
	o.release("42")
	for v = 1; o.event(change(v)) && v < most/400; v++ {
	}
	if frame, events := o.next(); frame != nil || len(events) == 0 {
		t.Fatal("no events to write")
	}
	before := held(o)
	for ; o.event(change(v)); v++ { // counts beside what is being written
	}
	if before == 0 || held(o) != before {
		t.Errorf("%d bytes are kept while %d are written", held(o), before)
	}
	o.written()
	if n := held(o); n != 0 {
		t.Errorf("%d bytes are kept when all is written", n)
	}

	o = newOutbox(func() {}, most)
	o.open("42")
	o.release("42")
	big := snapshot("e", 1)
	big.Shared(func() any { return &shared{event: big, bytes: make([]byte, 10*most)} })
	if !o.event(big) || !o.event(change(2)) {
		t.Error("a snapshot makes a client too slow")
	}
}

// There is one writer at a time: the one who claims it, or the one who is started for
// what nobody else would write.
func TestOneWriter(t *testing.T) {
	started := 0
	o := newOutbox(func() { started++ }, DefaultMaxQueue)
	o.open("42")
	o.replySnapshot(listReply(3))
	if started != 0 || !o.claim() || o.claim() {
		t.Fatal("a reply is for who has run the request to write")
	}
	o.event(change(4))
	if written(o) == "" || started != 0 {
		t.Errorf("%d started while somebody writes", started)
	}
	o.event(change(5))
	if !o.more() || o.claim() {
		t.Error("who writes does not see what has come")
	}
	written(o)
	if o.more() || o.claim() {
		t.Error("there is nothing to write")
	}
	o.event(change(6))
	o.ping(controlFrame(9, nil))
	if started != 1 || o.claim() {
		t.Errorf("%d started", started)
	}
	o.finish([]byte("the end"))
	if o.more() || !o.left() {
		t.Error("what is left at the end is for another to write")
	}
	if o.ping(nil) || o.claim() || !o.event(change(7)) || started != 1 {
		t.Error("something comes after the end")
	}
	o.drop()
	o.finish([]byte("the end"))
	if o.left() {
		t.Error("something is to be written to who cannot be written to")
	}
}

// A connection whose client has not read enough of its replies waits with its next
// request. A reply that is longer than all that may wait is let through alone.
func TestRepliesAreBounded(t *testing.T) {
	for name, relieve := range map[string]func(o *outbox){
		"written": func(o *outbox) { o.next(); o.written() },
		"ended":   func(o *outbox) { o.finish(nil) },
		"broken":  func(o *outbox) { o.drop() },
	} {
		for _, size := range []int{10, 1000, 100_000} {
			synctest.Test(t, func(t *testing.T) {
				const most = 10_000
				o := newOutbox(func() {}, most)
				sent := 0
				waits := false
				go func() {
					for range most/size + 1000/size + 50 {
						waits = true
						o.await()
						waits = false
						o.push(make([]byte, size))
						sent++
					}
				}()
				if synctest.Wait(); !waits || sent == 0 || held(o) > most+size+itemSize {
					t.Fatalf("%d frames of %d bytes are queued: %d bytes are kept", sent, size, held(o))
				}
				before := sent
				o.next()
				if synctest.Wait(); sent != before {
					t.Errorf("%s: what is being written does not count", name)
				}
				relieve(o)
				if synctest.Wait(); sent == before {
					t.Errorf("%s: it waits for ever", name)
				}
				o.finish(nil)
			})
		}
	}
}

func TestMergedFrame(t *testing.T) {
	frame := changesFrame(change(4), change(5))
	got := string(frame[bytes.IndexByte(frame, '{'):])
	want := `{"event":"changes","room":"42","epoch":"e","version":5,"from":3,"changes":[{"type":"join","user":"u4","seat":4},{"type":"join","user":"u5","seat":5}]}`
	if got != want {
		t.Errorf("merged to %s", got)
	}
	e := change(7)
	if first := sharedBy(e).frame(); &sharedBy(e).frame()[0] != &first[0] {
		t.Error("an event is encoded twice")
	}
}

// That a seat is lost is told behind the events that have come, and not at all if the
// client has a seat again by then.
func TestALostSeatIsToldLast(t *testing.T) {
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
	o := newOutbox(func() {}, DefaultMaxQueue)
	o.open("42")
	o.replySnapshot(listReply(1))
	frames(o)
	o.event(change(2))
	o.lost("42", protocol.CodeRoomFull)
	o.end("42")
	if got := frames(o); len(got) != 2 || got[0] != "events to 2" || got[1] != lost {
		t.Errorf("told %q", got)
	}
	o.open("42")
	o.replySnapshot(listReply(3))
	frames(o)
	o.hold("42")
	o.lost("42", protocol.CodeRoomFull)
	again := listReply(4)
	again.Seat = new(int)
	o.replySnapshot(again)
	if got := frames(o); len(got) != 1 || strings.Contains(got[0], "lost") {
		t.Errorf("who has joined again was told %q", got)
	}
}
