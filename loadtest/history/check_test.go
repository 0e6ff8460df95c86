package history

import "testing"

func TestCheck_AnomaliesThatTheEndShows(t *testing.T) {
	seeAnomalies(t, []anomaly{
		{"an acknowledged join is gone", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.check(2, "a0")
		}, Counts{Lost: 1}},
		{"an acknowledged leave is gone", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 0)
			w.check(2, "a0")
		}, Counts{Lost: 1}},
		{"an unknown outcome does not excuse another user", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.unknown("b", Leave)
			w.check(3, "")
		}, Counts{Lost: 1}},
		{"an unknown leave does not excuse a seen version", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.unknown("b", Leave)
			w.check(2, "a0")
		}, Counts{Lost: 1}},
		{"an older unknown leave does not excuse a seen version", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.l.room("r").addUnknown("b", Leave, 0)
			w.check(2, "a0")
		}, Counts{Lost: 1}},
		{"a user is there who never joined", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.check(1, "a0 x1")
		}, Counts{Phantom: 1}},
		{"a user is in a room that nobody used", Options{}, func(w *world) {
			w.check(0, "x1")
		}, Counts{Phantom: 1}},
		{"a user has another seat", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.check(1, "a4")
		}, Counts{Diverged: 1}},
		{"a user has another user's seat", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.check(2, "a0 b0")
		}, Counts{SeatClash: 1}},
		{"the room is at an older version", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.check(1, "a0")
		}, Counts{Lost: 1}},
		{"the room is gone", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.l.Check(nil)
		}, Counts{Lost: 1}},
		{"the room is in another epoch", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.epoch = "e2"
			w.check(1, "a0")
		}, Counts{VersionGap: 1}},
		{"after data loss the end is not what was seen", Options{DataLoss: true}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.epoch = "e2"
			w.snapshot("a", 1, "a0")
			w.check(1, "")
		}, Counts{Diverged: 1}},
	})
}

// Two nodes read version 1 and both write version 2. Only the later write survives.
func TestCheck_LostUpdate(t *testing.T) {
	t.Run("in an empty room", func(t *testing.T) {
		w := newWorld(t, Options{})
		w.join("a", 1, 0, "a0")
		w.join("b", 1, 0, "b0")
		w.check(1, "b0")
		w.expect(Counts{Lost: 1, Diverged: 1})
	})
	t.Run("before a witness", func(t *testing.T) {
		w := newWorld(t, Options{})
		w.join("x", 1, 0, "x0")
		w.join("a", 2, 1, "x0 a1")
		w.event("x", 2, "+a1")
		w.join("b", 2, 1, "x0 b1")
		w.event("x", 2, "+b1")
		w.check(2, "x0 b1")
		w.expect(Counts{Lost: 1, Diverged: 1, VersionGap: 1})
	})
	t.Run("without versions that tell them apart", func(t *testing.T) {
		w := newWorld(t, Options{})
		w.join("a", 1, 0, "a0")
		w.join("b", 2, 0, "b0") // written over what a wrote
		w.check(2, "b0")
		w.expect(Counts{Lost: 1, SeatClash: 1})
	})
}

func TestCheck_Node(t *testing.T) {
	final := RoomState{Epoch: "e1", Version: 3, Users: members("a0 b1")}
	tests := []struct {
		name   string
		answer RoomState
		want   Counts
	}{
		{"the same in another order", RoomState{Epoch: "e1", Version: 3, Users: members("b1 a0")}, Counts{}},
		{"an older version", RoomState{Epoch: "e1", Version: 2, Users: members("b1 a0")}, Counts{Diverged: 1}},
		{"another epoch", RoomState{Epoch: "e2", Version: 3, Users: members("b1 a0")}, Counts{Diverged: 1}},
		{"another list", RoomState{Epoch: "e1", Version: 3, Users: members("b1 a2")}, Counts{Diverged: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.l.CheckNode("node-1", "r", tt.answer, final)
			w.l.CheckNode("node-1", "r", tt.answer, final)
			w.expect(tt.want)
		})
	}
}
