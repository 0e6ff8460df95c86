package history

import (
	"strings"
	"testing"
)

// governedWorld is a room with a host: a and b join, change places by a's wish, a passes on and comes back, and b, the host by then,
// throws a out. Both are told of all.
type governedWorld struct {
	events []Event // to b; they begin behind version 2
	asked  map[uint64]Request
	admin  map[uint64]Request
	store  RoomState
}

func newGovernedWorld() *governedWorld {
	w := &governedWorld{
		asked: map[uint64]Request{3: {Action: Shuffle, By: "a"}, 6: {Action: Kick, By: "b", Users: []Member{{User: "a"}}}},
		admin: map[uint64]Request{7: {Action: Configure, Settings: Rules{Capacity: 5, Host: Longest}}},
		store: RoomState{Epoch: "e", Version: 7, Users: []Member{{User: "b"}}, Settings: &Rules{Capacity: 5, Host: Longest}, Host: "b"},
	}
	for i, changes := range [][]Change{
		{{Type: Seated, User: "a", Seat: 1}, {Type: Seated, User: "b", Seat: 0}},
		{{Type: Leave, User: "a"}, {Type: HostIs, User: "b"}},
		{{Type: Join, User: "a", Seat: 1}},
		{{Type: Leave, User: "a", Detail: Detail{Reason: Kicked}}},
		{{Type: Settings, Detail: Detail{Settings: Rules{Capacity: 5, Host: Longest}}}},
	} {
		w.events = append(w.events, Event{Epoch: "e", Version: uint64(i) + 3, From: uint64(i) + 2, Changes: changes})
	}
	return w
}

func (w *governedWorld) play() *Ledger {
	l := NewLedger(Options{Capacity: 4})
	a, b := l.View("r", "a", "a"), l.View("r", "b", "b")
	rules := &Rules{Capacity: 4, Host: Longest}
	one := List{Epoch: "e", Version: 1, Count: 1, Users: []Member{{User: "a"}}, Settings: rules, Host: "a"}
	a.Matched(0, one, *rules)
	a.Changed(Event{Epoch: "e", Version: 2, From: 1, Changes: []Change{{Type: Join, User: "b", Seat: 1}}})
	a.Changed(w.events[0])
	b.Joined(1, List{Epoch: "e", Version: 2, Count: 2, Users: []Member{{User: "a"}, {User: "b", Seat: 1}}, Settings: rules, Host: "a"})
	for _, e := range w.events {
		switch e.Version {
		case 4:
			a.Left("e", 4, 1)
		case 5:
			a.Joined(1, List{Epoch: "e", Version: 5, Count: 2, Users: []Member{{User: "b"}, {User: "a", Seat: 1}}, Settings: rules, Host: "b"})
		case 6:
			a.Lost(Kicked, "")
		}
		b.Changed(e)
		if q, done := w.asked[e.Version]; done {
			l.Done("r", q, Reply{Epoch: "e", Version: e.Version})
		}
		if q, done := w.admin[e.Version]; done {
			l.Done("r", q, Reply{Epoch: "e", Version: e.Version})
		}
	}
	l.CheckNode("n", "r", b.State(), w.store)
	l.Check(map[string]RoomState{"r": w.store})
	return l
}

// Who does what only the host may, a host who is none, a shuffle that nobody asked for or that leaves somebody out, and a
// room that is not what a match asked for, are found; a game in which all is well is consistent.
func TestGoverned(t *testing.T) {
	for _, tt := range []struct {
		what  string
		spoil func(w *governedWorld)
		want  string // in a violation; "" for none
	}{
		{"all is well", func(*governedWorld) {}, ""},
		{"nobody is the host", func(w *governedWorld) { w.events[1].Changes = w.events[1].Changes[:1] }, `the host is "a" in a room of 1 users`},
		{"a stranger is the host", func(w *governedWorld) { w.events[1].Changes[1].User = "x" }, `the host is "x"`},
		{"another host in Redis", func(w *governedWorld) { w.store.Host = "" }, "other host than the store"},
		{"who is not the host", func(w *governedWorld) { w.asked[3] = Request{Action: Shuffle, By: "b"} }, "who was not the host [intruder]"},
		{"who is the host no more", func(w *governedWorld) {
			w.asked[7] = Request{Action: Configure, By: "a", Settings: w.admin[7].Settings}
			delete(w.admin, 7)
		}, "who was not the host [intruder]"},
		{"who becomes the host", func(w *governedWorld) { w.asked[4] = Request{Action: Shuffle, By: "b"} }, ""},
		{"other seats that nobody wanted", func(w *governedWorld) { delete(w.asked, 3) }, "a has another seat, and nobody asked for that"},
		{"a swap that came late", func(w *governedWorld) {
			w.asked[5] = Request{Action: Swap, By: "b", Users: []Member{{User: "a"}, {User: "b"}}}
		}, "was acknowledged, and b has no other seat"},
		{"a shuffle of nobody", func(w *governedWorld) { w.asked[7] = Request{Action: Shuffle, By: "b"} }, ""}, // b is alone
		{"a shuffle that leaves one out", func(w *governedWorld) { w.events[0].Changes = w.events[0].Changes[:1] }, "[seat_clash]"},
		{"a shuffle that does nothing", func(w *governedWorld) { w.events[0].Changes = nil }, "a shuffle was acknowledged, and a has no other seat"},
	} {
		w := newGovernedWorld()
		tt.spoil(w)
		found := strings.Join(w.play().Violations().Descriptions(), "; ")
		if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
			t.Errorf("%s: found %q, want %q", tt.what, found, tt.want)
		}
	}
}

// An administrator is told who sits where behind a shuffle that no member sees. Of one whose outcome is not known nobody is.
func TestShuffle_Unseen(t *testing.T) {
	for _, tt := range []struct {
		what  string
		seats []Member // by the answer; nil for none
		then  []Member
		want  string
	}{
		{"as it was answered", []Member{{User: "a", Seat: 1}, {User: "b", Seat: 0}}, []Member{{User: "a", Seat: 1}, {User: "b", Seat: 0}}, ""},
		{"otherwise", []Member{{User: "a", Seat: 1}, {User: "b", Seat: 0}}, []Member{{User: "a", Seat: 0}, {User: "b", Seat: 1}}, "[diverged]"},
		{"not known", nil, []Member{{User: "a", Seat: 1}, {User: "b", Seat: 0}}, ""},
	} {
		l := NewLedger(Options{Capacity: 4})
		l.Start("r", RoomState{Epoch: "e", Version: 2, Users: []Member{{User: "a"}, {User: "b", Seat: 1}}, Settings: &Rules{Capacity: 4}})
		if tt.seats == nil {
			l.Unanswered("r", Request{Action: Shuffle}, 2)
		} else {
			l.Done("r", Request{Action: Shuffle, Users: tt.seats}, Reply{Epoch: "e", Version: 3})
		}
		l.View("r", "c", "c").Joined(2, List{Epoch: "e", Version: 4, Count: 3, Users: append(tt.then, Member{User: "c", Seat: 2}), Settings: &Rules{Capacity: 4}})
		l.Check(map[string]RoomState{"r": {Epoch: "e", Version: 4, Users: append(tt.then, Member{User: "c", Seat: 2}), Settings: &Rules{Capacity: 4}}})
		found := strings.Join(l.Violations().Descriptions(), "; ")
		if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
			t.Errorf("%s: found %q, want %q", tt.what, found, tt.want)
		}
	}
}

// A match leads into a room that has what it asked for. A room that is forgotten was empty.
func TestMatched(t *testing.T) {
	wanted := Rules{Capacity: 4, Labels: `{"mode":"a"}`}
	for _, tt := range []struct {
		what    string
		version uint64
		got     Rules
		leaves  bool
		want    string
	}{
		{"a new one", 1, wanted, true, ""},
		{"one that there was", 7, Rules{Capacity: 9, Labels: wanted.Labels}, true, ""},
		{"a new one with other settings", 1, Rules{Capacity: 9, Labels: wanted.Labels}, true, "looked for a room with"},
		{"other labels", 7, Rules{Capacity: 4, Labels: `{"mode":"b"}`}, true, "looked for a room with"},
		{"a member is forgotten", 1, wanted, false, "[lost]"},
	} {
		l := NewLedger(Options{})
		l.MayBeForgotten("m")
		if tt.version > 1 {
			l.Start("m", RoomState{Epoch: "e", Version: tt.version - 1, Settings: &tt.got})
		}
		v := l.View("m", "a", "a")
		v.Matched(0, List{Epoch: "e", Version: tt.version, Count: 1, Users: []Member{{User: "a"}}, Settings: &tt.got}, wanted)
		if tt.leaves {
			v.Left("e", tt.version+1, 0)
		}
		l.Check(nil)
		found := strings.Join(l.Violations().Descriptions(), "; ")
		if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
			t.Errorf("%s: found %q, want %q", tt.what, found, tt.want)
		}
	}
}
