package history

import "testing"

type clean struct {
	name    string
	options Options
	play    func(w *world)
}

// seeNothing plays histories that must give no violation.
func seeNothing(t *testing.T, tests []clean) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.options)
			tt.play(w)
			w.expect(Counts{})
			if got := w.l.Violations().Verdict(); got != "consistent" {
				t.Errorf("verdict is %q", got)
			}
		})
	}
}

func TestCheck_CleanHistories(t *testing.T) {
	seeNothing(t, []clean{
		{"a room that nobody used", Options{}, func(w *world) {
			w.epoch = ""
			w.listed("a", 0, "")
			w.check(0, "")
		}},
		{"one user joins and leaves", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 0)
			w.check(2, "")
		}},
		{"the version goes on in an emptied room", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 0)
			w.join("b", 3, 0, "b0")
			w.join("a", 4, 1, "a1 b0")
			w.event("b", 4, "+a1")
			w.check(4, "b0 a1")
		}},
		{"a batch passes a seat on", Options{Capacity: 2}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.leave("a", 3, 2)
			w.join("c", 3, 0, "b1 c0")
			w.event("b", 3, "-a +c0")
			w.check(3, "b1 c0")
		}},
		{"a batch that no event shows", Options{Capacity: 2}, func(w *world) {
			w.join("a", 1, 0, "a0 b1")
			w.join("b", 1, 1, "a0 b1")
			w.join("c", 2, 0, "c0 d1")
			w.leave("a", 2, 2)
			w.leave("b", 2, 2)
			w.join("d", 2, 1, "c0 d1")
			w.check(2, "c0 d1")
		}},
		{"one more join of a member, here and in a new session", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("a", 1, 0, "a0")
			w.cut("a")
			w.join("a", 2, 0, "a0") // a commit that changes no list
			w.join("b", 3, 1, "a0 b1")
			w.event("a", 3, "+b1")
			w.join("a", 3, 0, "b1 a0")
			w.event("a b", 4, "")
			w.check(4, "a0 b1")
		}},
		{"merged events beside single ones", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.join("c", 3, 2, "a0 b1 c2")
			w.leave("c", 4, 2)
			w.event("b", 3, "+c2")
			w.event("b", 4, "-c")
			w.span("a", 1, 4, "+b1 +c2 -c")
			w.check(4, "a0 b1")
		}},
		{"only merged events, overlapping", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.span("a", 1, 4, "+b1 +c2 +d3")
			w.cut("a")
			w.span("b", 2, 6, "+c2 +d3 -a +e0")
			w.check(6, "b1 c2 d3 e0")
		}},
		{"a snapshot skips versions", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.leave("b", 3, 1)
			w.snapshot("a", 3, "a0")
			w.join("c", 4, 1, "a0 c1")
			w.event("a", 4, "+c1")
			w.check(4, "a0 c1")
		}},
		{"users replies older and newer than the picture", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.listed("a", 2, "a0 b1")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.listed("a", 1, "a0")
			w.check(2, "a0 b1")
		}},
		{"the event of a leave overtakes its reply", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "-a")
			w.leave("a", 2, 0)
			w.check(2, "")
		}},
		{"one more join within a merged event that moves the user", Options{}, func(w *world) {
			w.l.Start("r", RoomState{Epoch: "e1", Version: 1, Users: members("a0 b1")})
			w.join("b", 1, 1, "a0 b1")
			w.join("a", 2, 0, "a0 b1") // a commit that changes no list
			w.leave("a", 3, 1)
			w.join("a", 4, 2, "b1 a2")
			w.span("b", 1, 4, "-a +a2")
			w.check(4, "b1 a2")
		}},
		{"a merged event goes on after another that changed nothing", Options{}, func(w *world) {
			w.l.Start("r", RoomState{Epoch: "e1", Version: 2, Users: members("a0 b1 c2")})
			w.l.room("r").addUnknown("a", Leave, 0)
			w.l.room("r").addUnknown("a", Join, 0)
			w.l.room("r").addUnknown("a", Leave, 0)
			w.join("b", 2, 1, "a0 b1 c2")
			w.join("c", 2, 2, "a0 b1 c2")
			w.span("c", 2, 4, "-a +a0")
			w.leave("c", 5, 2)
			w.span("b", 2, 5, "-a +a0 -c")
			w.snapshot("b", 6, "b1")
			w.check(6, "b1")
		}},
		{"a merged event goes on in the middle of another, after unseen versions", Options{}, func(w *world) {
			w.l.Start("r", RoomState{Epoch: "e1", Version: 1, Users: members("a0 b1")})
			w.listed("x", 5, "b1 d0")
			w.join("b", 1, 1, "a0 b1")
			w.leave("a", 2, 1)
			w.join("c", 3, 0, "b1 c0")
			w.snapshot("b", 3, "b1 c0")
			w.leave("c", 4, 1)
			w.join("d", 5, 0, "b1 d0")
			w.view("y").Snapshot(w.list(2, "b1"))
			w.span("y", 2, 6, "+c0 -c +d0 +e2")
			w.check(6, "b1 d0 e2")
		}},
		{"a watcher", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.snapshot("watcher", 1, "a0")
			w.leave("a", 2, 0)
			w.event("watcher", 2, "-a")
			w.check(2, "")
		}},
		{"a room that is not fresh", Options{}, func(w *world) {
			w.l.Start("r", RoomState{Epoch: "e1", Version: 7, Users: members("x0 y1")})
			w.join("x", 7, 0, "x0 y1")
			w.leave("y", 8, 1)
			w.event("x", 8, "-y")
			w.check(8, "x0")
		}},
		{"declared data loss", Options{DataLoss: true}, func(w *world) {
			w.join("a", 9, 0, "a0")
			w.epoch = "e2"
			w.snapshot("a", 1, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.check(2, "a0 b1")
		}},
	})
}
