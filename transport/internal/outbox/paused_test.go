package outbox

import (
	"slices"
	"strings"
	"testing"

	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// leaves is the event that a user has left.
func leaves(user string, version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
		Changes: []room.Change{{Type: room.KindLeave, User: user, Seat: 1}}}
}

func (o *box) restart(epoch string, version uint64) {
	o.byID["42"].Restart(snapshot(epoch, version), true)
	o.byID["42"].Resume()
}

// lacking is an event that shows the room without the member.
func (o *box) lacking(e *room.Event) bool {
	o.byID["42"].Pause(e)
	return o.push(e)
}

func (o *box) lose(by *room.Event, watching bool) {
	o.byID["42"].Lose(frames.Event(&protocol.Event{Event: protocol.EventLost, Room: "42"}), slices.DeleteFunc([]*room.Event{by}, func(e *room.Event) bool { return e == nil }), watching, false)
}

// What is kept back while a queue is paused, what the client gets when it goes on, and where the loss
// of the seat and replies have their place.
func TestRoom_Paused(t *testing.T) {
	big := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		name string
		run  func(o *box)
		want string
	}{
		{"nothing was lost: the events go on", func(o *box) {
			o.byID["42"].Pause(nil)
			o.push(change(4))
			o.byID["42"].Restart(snapshot("e", 4), false)
			o.byID["42"].Resume()
		}, "events 4"},
		{"nothing is written before", func(o *box) {
			o.push(change(4))
			o.byID["42"].Pause(nil)
			o.push(change(5))
		}, ""},
		{"the member's own leave: a snapshot in place of all up to it", func(o *box) {
			o.push(change(4))
			o.lacking(leaves("a", 5))
			o.push(change(6))
			o.push(change(7))
			o.restart("e", 6)
		}, "events =6+7"},
		{"the room begins anew without the member", func(o *box) {
			o.lacking(&room.Event{Room: "42", Epoch: "new", Version: 1, Changes: []room.Change{{Type: room.KindJoin, User: "b"}}})
			o.restart("new", 2)
		}, "events =2"},
		{"a snapshot of another epoch without the member is over", func(o *box) {
			o.lacking(leaves("a", 4))
			o.lacking(snapshot("", 0))
			o.restart("new", 1)
		}, "events =1"},
		{"so it is for a reply", func(o *box) {
			o.lacking(snapshot("", 0))
			o.hold("42")
			anew := listAt(1)
			anew.Epoch = "new"
			listed(o, anew)
			o.byID["42"].Resume()
		}, "reply 1"},
		{"an older snapshot without the member is not pending", func(o *box) {
			o.push(change(4))
			o.lacking(leaves("a", 5))
			late := snapshot("e", 4)
			o.lacking(late)
			o.lose(nil, false)
		}, "events 4, lost"},
		{"a snapshot of another epoch came since the action began", func(o *box) {
			o.lacking(leaves("a", 4))
			o.push(snapshot("newer", 1))
			o.restart("new", 1)
		}, "events =1"},
		{"the client has a later list", func(o *box) {
			o.lacking(leaves("a", 4))
			o.hold("42")
			o.replyList(listAt(6))
			o.push(change(7))
			o.release("42")
			o.restart("e", 5)
		}, "reply 6, events 7"},
		{"a snapshot of another epoch without the member, of which the client has the list already", func(o *box) {
			o.lacking(snapshot("", 0))
			o.restart("e", 3)
			o.push(change(4))
		}, "events 4"},
		{"changes of an epoch that is over", func(o *box) {
			o.byID["42"].Pause(nil)
			o.restart("new", 1)
			o.push(change(4))
		}, "events =1"},
		{"too much is kept back: it is dropped, and the connection stays", func(o *box) {
			o.lacking(leaves(big, 4))
			o.push(change(5))
			o.restart("e", 4)
		}, "events =4+5"},
		{"too much is kept back, and a snapshot before it", func(o *box) {
			o.byID["42"].Pause(nil)
			o.push(change(4))
			o.lacking(leaves(big, 5))
			o.restart("e", 4)
		}, "snapshot of 42 wanted"},
		{"too much is kept back, and a snapshot comes with the events", func(o *box) {
			o.lacking(leaves(big, 4))
			o.push(snapshot("e", 7))
			o.byID["42"].Resume()
		}, "events =7"},
		{"what is kept back of one room is dropped before what another room has", func(o *box) {
			o.open("43")
			o.replyList(&protocol.Reply{ID: new(int64), Room: "43", Epoch: "e", Version: 3})
			o.release("43")
			o.lacking(leaves(big[:3000], 4))
			other := leaves(big[:2000], 4)
			other.Room = "43"
			o.push(other)
			o.restart("e", 4)
		}, "reply 3, events 4, events =4"},
		{"the session is replaced: what is kept back is not written", func(o *box) {
			o.push(change(4))
			o.lacking(leaves("a", 5))
			o.hold("42") // also if a request runs
			o.end("42")
			o.release("42")
		}, ""},
		{"a snapshot of another epoch, a list, and a snapshot of what the list has", func(o *box) {
			o.hold("42")
			o.push(snapshot("old", 9))
			o.replyList(listAt(6))
			o.push(snapshot("e", 6))
			o.push(change(7))
			o.release("42")
		}, "reply 6, events 7"},

		{"the seat is lost: what was before comes before, and nothing behind", func(o *box) {
			o.push(change(4))
			o.lose(leaves("a", 5), false)
			o.push(change(6)) // before the room has stopped its events
			o.end("42")
		}, "events 4, lost"},
		{"the seat of a watcher is lost: the events go on", func(o *box) {
			e := leaves("a", 5)
			o.push(change(4))
			o.lose(e, true)
			o.push(e)
		}, "events 4, lost, events 5"},
		{"the seat is lost after a failure: nothing without the member comes before", func(o *box) {
			o.push(change(4))
			o.lacking(leaves("a", 5))
			o.push(change(6))
			o.lose(nil, false)
		}, "events 4, lost"},
		{"so it is for a watcher, who gets what has waited behind it", func(o *box) {
			o.push(change(4))
			o.lacking(leaves("a", 5))
			o.push(change(6))
			o.lose(nil, true)
		}, "events 4, lost, events 5+6"},
		{"the seat is lost while a list is read", func(o *box) {
			e := leaves("a", 6)
			o.hold("42")
			o.push(change(4))
			o.push(change(5))
			o.lose(e, true)
			o.push(e)
			o.replyList(listAt(4))
			o.release("42")
		}, "reply 4, events 5, lost, events 6"},
		{"the seat is lost while a list is read, and that was all", func(o *box) {
			o.hold("42")
			o.push(change(4))
			o.push(change(5))
			o.lose(leaves("a", 6), false)
			o.replyList(listAt(4))
			o.release("42")
		}, "reply 4, events 5, lost"},
		{"the list has the loss already", func(o *box) {
			e := leaves("a", 5)
			o.hold("42")
			o.push(change(4))
			o.lose(e, true)
			o.push(e)
			o.push(change(6))
			o.replyList(listAt(5))
			o.release("42")
		}, "lost, reply 5, events 6"},
		{"the seat is lost while a request runs, and that was all", func(o *box) {
			o.hold("42")
			o.push(change(4))
			o.lose(leaves("a", 5), false)
			o.byID["42"].Reply("", 0, frames.Reply(leaveAt(9)), nil)
			o.release("42")
		}, "events 4, lost, reply 9"},
		{"a request finds the loss, of which the event has come: nothing of it comes before", func(o *box) {
			o.hold("42")
			o.push(change(4))
			e := leaves("a", 5)
			o.push(e)
			o.byID["42"].Lose(frames.Event(&protocol.Event{Event: protocol.EventLost, Room: "42"}), []*room.Event{e}, true, true)
			o.push(change(6))
			o.byID["42"].Reply("e", 6, frames.Reply(leaveAt(9)), nil)
			o.release("42")
		}, "events 4, lost, events 5, reply 9, events 6"},
		{"the seat is lost while a request runs, and the next queue of the room begins", func(o *box) {
			o.hold("42")
			o.push(change(4))
			o.lose(leaves("a", 5), false)
			o.open("42")
			o.replyList(listAt(9))
			o.push(change(10))
			o.release("42")
		}, "events 4, lost, reply 9, events 10"},
		{"the seat is lost before the client has a list: it gets no changes of it", func(o *box) {
			o.end("42")
			written(o)
			o.open("42")
			o.push(change(4))
			o.lose(leaves("a", 5), false)
			o.release("42")
		}, "lost"},
		{"the seat is lost after too much was dropped", func(o *box) {
			o.push(leaves(big, 4))
			o.lose(leaves("a", 5), true)
		}, "lost, snapshot of 42 wanted"},

		{"a reply has the place of its version", func(o *box) {
			o.hold("42")
			for v := uint64(4); v < 8; v++ {
				o.push(change(v))
			}
			o.byID["42"].Reply("e", 6, frames.Reply(leaveAt(6)), nil)
			o.release("42")
		}, "events 4+5, reply 6, events 6+7"},
		{"a reply before an event that may say that the place is lost", func(o *box) {
			doubtful := change(5)
			o.hold("42")
			o.push(change(4))
			o.push(doubtful)
			o.byID["42"].Reply("e", 6, frames.Reply(leaveAt(6)), []*room.Event{change(3), doubtful})
			o.release("42")
		}, "events 4, reply 6, events 5"},
		{"a reply of another epoch", func(o *box) {
			o.hold("42")
			o.push(change(4))
			o.byID["42"].Reply("new", 6, frames.Reply(leaveAt(6)), nil)
			o.release("42")
		}, "reply 6, events 4"},
		{"a reply while the place is in doubt", func(o *box) {
			o.byID["42"].Pause(nil)
			o.hold("42")
			o.push(change(4))
			o.byID["42"].Reply("e", 6, frames.Reply(leaveAt(6)), nil)
			o.release("42")
		}, "reply 6"},
	} {
		o := newBox(func() {}, 4096)
		o.open("42")
		listed(o, listAt(3))
		written(o)
		o.Written()
		tt.run(o)
		if got := written(o); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		for o.KeepWriting() {
			written(o)
		}
		o.Written()
		if n := o.Kept(); n != 0 && !strings.Contains(tt.name, "before") && !o.byID["42"].paused {
			t.Errorf("%s: %d bytes are kept in the end", tt.name, n)
		}
	}
}
