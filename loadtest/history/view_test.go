package history

import "testing"

type anomaly struct {
	name    string
	options Options
	play    func(w *world)
	want    Counts
}

// seeAnomalies plays histories with one anomaly each, which must count once and alone.
func seeAnomalies(t *testing.T, tests []anomaly) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.options)
			tt.play(w)
			w.expect(tt.want)
		})
	}
}

func TestView_Anomalies(t *testing.T) {
	seeAnomalies(t, []anomaly{
		// What one connection sees.
		{"the reply's list lacks who joined", Options{}, func(w *world) {
			w.join("b", 1, 0, "b0")
			w.join("a", 2, 1, "b0")
			w.check(2, "b0")
		}, Counts{Lost: 1}},
		{"the reply's list has another seat", Options{}, func(w *world) {
			w.join("a", 1, 0, "a1")
		}, Counts{Diverged: 1}},
		{"an event joins who is there", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.event("a b", 3, "+a0")
			w.check(3, "a0 b1")
		}, Counts{Duplicate: 1}},
		{"a list names a user twice", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0 a1")
			w.listed("a", 1, "a0 a1")
		}, Counts{Duplicate: 1}},
		{"an event takes out who is not there", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "-b")
			w.check(2, "a0")
		}, Counts{Phantom: 1}},
		{"an event seats two on one seat", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "+b0")
			w.join("b", 2, 0, "a0 b0")
			w.check(2, "a0 b0")
		}, Counts{SeatClash: 1}},
		{"a list has two on one seat", Options{}, func(w *world) {
			w.listed("a", 1, "b0 c0")
			w.listed("a", 2, "b0 c0")
		}, Counts{SeatClash: 1}},
		{"an event overfills the room", Options{Capacity: 1}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "+b1")
			w.check(2, "a0 b1")
		}, Counts{Oversold: 1}},
		{"a list is longer than the capacity", Options{Capacity: 1}, func(w *world) {
			w.listed("a", 2, "b0 c1")
		}, Counts{Oversold: 1}},
		{"a count above the capacity, and not the list's", Options{Capacity: 2}, func(w *world) {
			w.view("a").Listed(List{Epoch: "e1", Version: 2, Count: 3, Users: members("b0 c1")})
		}, Counts{Oversold: 1, Diverged: 1}},
		{"a count that is not the list's", Options{}, func(w *world) {
			w.view("a").Listed(List{Epoch: "e1", Version: 2, Count: 1, Users: members("b0 c1")})
		}, Counts{Diverged: 1}},
		{"a change of an unknown type", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.view("a").Changed(Event{"e1", 2, 1, []Change{{Type: "kick", User: "a"}}})
		}, Counts{Diverged: 1}},
		{"an event is left out", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.join("c", 3, 2, "a0 b1 c2")
			w.event("b", 3, "+c2")
			w.event("a", 3, "+c2")
			w.event("a b c", 4, "-b") // blind now, a cannot tell a phantom
			w.check(4, "a0 c2")
		}, Counts{VersionGap: 1}},
		{"an event comes twice, and the view goes on", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a a", 2, "+b1")
			w.event("a", 3, "-c")
			w.check(3, "a0 b1")
		}, Counts{VersionGap: 1, Phantom: 1}},
		{"an event goes from new to old, and the view goes on", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.span("a", 5, 3, "")
			w.event("a", 2, "-c")
			w.check(2, "a0")
		}, Counts{VersionGap: 1, Phantom: 1}},
		{"an event spans nothing", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.span("a", 1, 1, "")
			w.check(1, "a0")
		}, Counts{VersionGap: 1}},
		{"an event of an epoch without a list", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.view("a").Changed(Event{"e2", 2, 1, nil})
			w.check(1, "a0")
		}, Counts{VersionGap: 1}},
		{"an event of an epoch without a list, data loss declared", Options{DataLoss: true}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.view("a").Changed(Event{"e2", 2, 1, nil})
			w.check(1, "a0")
		}, Counts{VersionGap: 1}},
		{"an event before any list", Options{}, func(w *world) {
			w.event("a", 2, "+b1")
		}, Counts{VersionGap: 1}},
		{"an event after a leave", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 0)
			w.join("b", 3, 0, "b0")
			w.event("a", 3, "+b0")
			w.check(3, "b0")
		}, Counts{VersionGap: 1}},
		{"a snapshot goes back", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "")
			w.snapshot("a", 1, "a0")
			w.check(2, "a0")
		}, Counts{VersionGap: 1}},
		{"a join after a leave has the version of the leave", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 0)
			w.view("a").Joined(0, w.list(2, "a0"))
		}, Counts{VersionGap: 1, Diverged: 1}}, // one user, zero users
		{"one more join goes back", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "")
			w.join("a", 1, 0, "a0")
			w.check(2, "a0")
		}, Counts{VersionGap: 1}},
		{"a leave goes back", Options{}, func(w *world) {
			w.join("a", 2, 0, "a0")
			w.leave("a", 1, 0)
		}, Counts{VersionGap: 1}},
		{"a leave that is not in its version", Options{}, func(w *world) {
			w.join("b", 1, 1, "b1")
			w.join("a", 2, 0, "b1 a0")
			w.event("b", 2, "+a0")
			w.event("a b", 3, "+c2")
			w.leave("a", 3, 3)
		}, Counts{Lost: 1}},
		{"a new epoch", Options{}, func(w *world) {
			w.join("a", 3, 0, "a0")
			w.epoch = "e2"
			w.snapshot("a", 1, "a0")
			w.check(1, "a0")
		}, Counts{VersionGap: 1}},

		// What two connections see.
		{"two lists at one version", Options{}, func(w *world) {
			w.listed("a", 5, "x0")
			w.listed("b", 5, "y0")
			w.listed("c", 5, "y0")
		}, Counts{Diverged: 1}},
		{"a count and a list at one version", Options{}, func(w *world) {
			w.leave("a", 5, 3)
			w.listed("b", 5, "y0")
		}, Counts{Diverged: 1}},
		{"two counts at one version", Options{}, func(w *world) {
			w.l.Start("r", RoomState{Epoch: "e1", Version: 1, Users: members("a0 b1 c2")})
			w.leave("a", 2, 1)
			w.leave("b", 2, 2)
			w.check(2, "c2")
		}, Counts{Diverged: 1}},
		{"two events at one version that come to the same", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0 b1")
			w.join("b", 1, 1, "a0 b1")
			w.event("a", 2, "+c2 -c")
			w.event("b", 2, "+c3 -c")
			w.check(2, "a0 b1")
		}, Counts{Diverged: 1}},
		{"two events at one version", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.event("a", 3, "+c2")
			w.event("b", 3, "+d2")
			w.check(3, "a0 b1 c2")
		}, Counts{Diverged: 1}},
		{"a merged event and single ones", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.event("a", 3, "+c2")
			w.event("a", 4, "-c")
			w.span("b", 2, 4, "+d2 -d")
			w.check(4, "a0 b1")
		}, Counts{Diverged: 1}},
	})
}

func TestView_State(t *testing.T) {
	w := newWorld(t, Options{})
	v := w.view("a")
	if got := v.State(); got.Version != 0 || got.Users != nil {
		t.Errorf("before any list it is %v", got)
	}
	w.join("a", 1, 0, "a0")
	w.event("a", 2, "+b1")
	if got := v.State(); got.Epoch != "e1" || got.Version != 2 || fingerprintOf(got.Users) != fingerprintOf(members("a0 b1")) {
		t.Errorf("after an event it is %v", got)
	}
	w.leave("a", 3, 1)
	if got := v.State(); got.Epoch != "" || got.Users != nil {
		t.Errorf("after a leave it is %v", got)
	}
}
