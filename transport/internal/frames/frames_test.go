package frames

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"roomd/room"
)

func change(version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
		Changes: []room.Change{{Type: room.KindJoin, User: fmt.Sprint("u", version), Seat: int(version)}}}
}

// noClock is for what has no timers.
func noClock() int64 { return 0 } // there are no timers

// Who gets an event later, or a snapshot, sees that a timer has less time left.
func TestFrames_OfTimers(t *testing.T) {
	now := int64(1000)
	clock := func() int64 { return now }
	timer := func(kind room.Kind, due int64) *room.Event {
		return &room.Event{Room: "42", Epoch: "e", Version: 4, From: 3,
			Changes: []room.Change{{Type: kind, User: "a", Detail: &room.Detail{Timer: &room.Countdown{Name: "turn", Due: due}}}}}
	}
	is := room.NewRoom("42", room.Position{Epoch: "e", Version: 4}, map[string]room.Member{})
	is.Restore(room.State{Timers: &room.Timers{ByName: map[string]room.Timer{"turn": {Due: 1500}, "a": {Due: 10}}}})
	whole := is.Snapshot()
	for _, tt := range []struct {
		e          *room.Event
		now, later string
	}{
		{timer(room.KindCountdown, 1500), `{"type":"countdown","user":"a","name":"turn","in":500}`, `{"type":"countdown","user":"a","name":"turn","in":100}`},
		{timer(room.KindCountdown, 0), `{"type":"countdown","user":"a","name":"turn","in":null}`, `"in":null`},
		{&room.Event{Room: "42", Epoch: "e", Version: 4, Snapshot: &whole}, `"timers":{"a":0,"turn":500}`, `"timers":{"a":0,"turn":100}`},
	} {
		now = 1000
		if frame := string(Of(tt.e).For(room.Viewer{User: "x"}, clock)); !strings.Contains(frame, tt.now) {
			t.Errorf("%s, want %s", frame, tt.now)
		}
		now = 1400
		if frame := string(Of(tt.e).For(room.Viewer{User: "x"}, clock)); !strings.Contains(frame, tt.later) {
			t.Errorf("later %s, want %s", frame, tt.later)
		}
	}
}

func TestMergedFrame(t *testing.T) {
	frame := Changes(room.Viewer{}, noClock, change(4), change(5))
	got := string(frame[bytes.IndexByte(frame, '{'):])
	want := `{"event":"changes","room":"42","epoch":"e","version":5,"from":3,"changes":[{"type":"join","user":"u4","seat":4},{"type":"join","user":"u5","seat":5}]}`
	if got != want {
		t.Errorf("merged to %s", got)
	}
	e := change(7)
	if first := Of(e).For(room.Viewer{}, noClock); &Of(e).For(room.Viewer{User: "a"}, noClock)[0] != &first[0] {
		t.Error("an event is encoded twice")
	}
}

// However many sessions come back in one commit, the room is encoded once.
func TestSnapshot_IsShared(t *testing.T) {
	found := room.NewRoom("42", room.Position{Epoch: "e", Version: 6}, map[string]room.Member{"a": {Seat: 1}}).Snapshot()
	shown := func(s room.Snapshot) []byte {
		return Of(&room.Event{Room: "42", Epoch: s.Epoch, Version: s.Version, Snapshot: &s}).For(room.Viewer{User: "x"}, noClock)
	}
	first, second := shown(found), shown(found)
	if &first[0] != &second[0] {
		t.Error("each client has a copy of its own")
	}
	later := found
	later.Version = 7 // the same members
	if frame := shown(later); !strings.Contains(string(frame), `"version":7`) {
		t.Errorf("got %s", frame)
	}
}
