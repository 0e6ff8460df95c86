package outbox

import (
	"strings"
	"testing"
)

func TestRoom_RepliesAndEventsFormOneSequence(t *testing.T) {
	for _, tt := range []struct{ name, steps, want string }{
		{"a join: events behind its reply only, after it", "open; change 1 2 3 4; listed 3; change 5", "reply 3, events 4+5"},
		{"a room began while its emptiness was read", "open; hold; change 1 2; list none 0; release; change 3", "reply 0, events 1+2+3"},
		{"what came of a room that has gone since", "open; hold; change 2; list none 0; release", "reply 0"},
		{"a slow client: events are merged in the place of the first one",
			"open; listed 3; change 4; reply 99; change 5", "reply 3, events 4+5, reply 99"},
		{"users: what is queued and in the list is dropped",
			"open; listed 3; change 4; hold; change 5 6; listed 5", "reply 3, reply 5, events 6"},
		{"a refused request: held events go on",
			"open; listed 3; hold; change 4; reply 99; release; change 5", "reply 3, reply 99, events 4+5"},
		{"a request about the room runs: what is queued already waits, too", "open; listed 3; change 4; hold", "reply 3"},
		{"nothing twice, nothing old", "open; listed 3; change 3 4 4; snapshot 4", "reply 3, events 4"},
		{"a snapshot stands for what is pending",
			"open; listed 3; change 4; snapshot 9; change 10; snapshot new 1", "reply 3, events =1"},
		{"a reply of a new epoch: changes of the earlier one are dropped",
			"open; listed 3; hold; change 4; listed new 1", "reply 3, reply 1"},
		{"after a leave nothing comes", "open; listed 3; change 4; end; reply 5; change 6", "reply 3, reply 5"},
	} {
		o := newBox(func() {}, 256<<10)
		o.play(t, tt.steps)
		if got := written(o); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// What is kept back while a queue is paused, what the client gets when it goes on, and where the loss
// of the seat and replies have their place. The client has the list of version 3.
func TestRoom_Paused(t *testing.T) {
	for _, tt := range []struct{ name, steps, want string }{
		{"nothing was lost: the events go on", "pause; change 4; restart e 4 without", "events 4"},
		{"nothing is written before", "change 4; pause; change 5", ""},
		{"the member's own leave: a snapshot in place of all up to it", "change 4; lacking leave 5; change 6 7; restart e 6", "events =6+7"},
		{"the room begins anew without the member", "lacking change new 1; restart new 2", "events =2"},
		{"a snapshot of another epoch without the member is over", "lacking leave 4; lacking snapshot none 0; restart new 1", "events =1"},
		{"so it is for a reply", "lacking snapshot none 0; hold; listed new 1; resume", "reply 1"},
		{"an older snapshot without the member is not pending", "change 4; lacking leave 5; lacking snapshot 4; lose", "events 4, lost"},
		{"a snapshot of another epoch came since the action began", "lacking leave 4; snapshot newer 1; restart new 1", "events =1"},
		{"the client has a later list", "lacking leave 4; hold; list 6; change 7; release; restart e 5", "reply 6, events 7"},
		{"a snapshot of another epoch without the member, of which the client has the list already",
			"lacking snapshot none 0; restart e 3; change 4", "events 4"},
		{"changes of an epoch that is over", "pause; restart new 1; change 4", "events =1"},
		{"too much is kept back: it is dropped, and the connection stays", "lacking 5000x 4; change 5; restart e 4", "events =4+5"},
		{"too much is kept back, and a snapshot before it", "pause; change 4; lacking 5000x 5; restart e 4", "snapshot of 42 wanted"},
		{"too much is kept back, and a snapshot comes with the events", "lacking 5000x 4; snapshot 7; resume", "events =7"},
		{"what is kept back of one room is dropped before what another room has",
			"43: open; 43: listed 3; lacking 3000x 4; 43: 2000x 4; restart e 4", "reply 3, events 4, events =4"},
		{"the session is replaced, also while a request runs: what is kept back is not written",
			"change 4; lacking leave 5; hold; end; release", ""},
		{"a snapshot of another epoch, a list, and a snapshot of what the list has",
			"hold; snapshot old 9; list 6; snapshot 6; change 7; release", "reply 6, events 7"},

		{"the seat is lost: what was before comes before, and nothing behind", // before the room has stopped its events
			"change 4; lose leave 5; change 6; end", "events 4, lost"},
		{"the seat of a watcher is lost: the events go on", "change 4; lose leave 5 watching; leave 5", "events 4, lost, events 5"},
		{"the seat is lost after a failure: nothing without the member comes before",
			"change 4; lacking leave 5; change 6; lose", "events 4, lost"},
		{"so it is for a watcher, who gets what has waited behind it",
			"change 4; lacking leave 5; change 6; lose watching", "events 4, lost, events 5+6"},
		{"the seat is lost while a list is read",
			"hold; change 4 5; lose leave 6 watching; leave 6; list 4; release", "reply 4, events 5, lost, events 6"},
		{"the seat is lost while a list is read, and that was all", "hold; change 4 5; lose leave 6; list 4; release", "reply 4, events 5, lost"},
		{"the list has the loss already",
			"hold; change 4; lose leave 5 watching; leave 5; change 6; list 5; release", "lost, reply 5, events 6"},
		{"the seat is lost while a request runs, and that was all",
			"hold; change 4; lose leave 5; answer none 0; release", "events 4, lost, reply 0"},
		{"a request finds the loss, of which the event has come: nothing of it comes before",
			"hold; change 4; leave 5; lose leave 5 watching found; change 6; answer 6; release", "events 4, lost, events 5, reply 6, events 6"},
		{"the seat is lost while a request runs, and the next queue of the room begins",
			"hold; change 4; lose leave 5; open; list 9; change 10; release", "events 4, lost, reply 9, events 10"},
		{"the seat is lost before the client has a list: it gets no changes of it", "end; open; change 4; lose leave 5; release", "lost"},
		{"the seat is lost after too much was dropped", "5000x 4; lose leave 5 watching", "lost, snapshot of 42 wanted"},

		{"a reply has the place of its version", "hold; change 4 5 6 7; answer 6; release", "events 4+5, reply 6, events 6+7"},
		{"a reply before an event that may say that the place is lost",
			"hold; change 4 5; answer 6 doubtful; release", "events 4, reply 6, events 5"},
		{"a reply of another epoch", "hold; change 4; answer new 6; release", "reply 6, events 4"},
		{"a reply while the place is in doubt", "pause; hold; change 4; answer 6; release", "reply 6"},
	} {
		o := newBox(func() {}, 4096)
		o.play(t, "open; listed 3")
		written(o)
		o.Written()
		o.play(t, tt.steps)
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
