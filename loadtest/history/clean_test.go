package history

import (
	"fmt"
	"testing"
)

// None of these histories may give a violation.
func TestCleanHistories(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		play    func(w *world)
	}{
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
		{"one more join within a merged event that ends with the leave", Options{}, func(w *world) {
			w.l.Start("r", RoomState{"e1", 1, members("a0 b1")})
			w.join("b", 1, 1, "a0 b1")
			w.join("a", 2, 0, "a0 b1") // a commit that changes no list
			w.leave("a", 3, 1)
			w.span("b", 1, 3, "-a")
			w.check(3, "b1")
		}},
		{"a merged event goes on after another that changed nothing", Options{}, func(w *world) {
			w.l.Start("r", RoomState{"e1", 2, members("a0 b1 c2")})
			w.l.Unknown("r", "a", Leave, 0)
			w.l.Unknown("r", "a", Join, 0)
			w.l.Unknown("r", "a", Leave, 0)
			w.join("b", 2, 1, "a0 b1 c2")
			w.join("c", 2, 2, "a0 b1 c2")
			w.span("c", 2, 4, "-a +a0")
			w.leave("c", 5, 2)
			w.span("b", 2, 5, "-a +a0 -c")
			w.snapshot("b", 6, "b1")
			w.check(6, "b1")
		}},
		{"a merged event goes on in the middle of another, after unseen versions", Options{}, func(w *world) {
			w.l.Start("r", RoomState{"e1", 1, members("a0 b1")})
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
			w.l.Start("r", RoomState{"e1", 7, members("x0 y1")})
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
		{"an unknown join that an event shows", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("b", Join)
			w.event("a", 2, "+b1")
			w.event("b", 2, "+b1") // its session may be told, or not
			w.check(2, "a0 b1")
		}},
		{"an unknown join that never happened", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("b", Join)
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.check(2, "a0 b1")
		}},
		{"unknown joins that only the end shows", Options{}, func(w *world) {
			w.unknown("a", Join)
			w.unknown("b", Join)
			w.check(1, "b1 a0")
		}},
		{"an unknown join in a batch that no event shows", Options{}, func(w *world) {
			w.unknown("b", Join)
			w.join("a", 1, 1, "b0 a1")
			w.event("a", 2, "-b")
			w.check(2, "a1")
		}},
		{"an unknown join and the leave after it", Options{}, func(w *world) {
			w.unknown("a", Join)
			w.leave("a", 2, 0)
			w.check(2, "")
		}},
		{"an unknown join between versions that lists show", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("b", Join)
			w.snapshot("a", 2, "a0 b1")
			w.check(2, "a0 b1")
		}},
		{"a connection is cut and its member leaves", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.cut("a")
			w.join("b", 3, 0, "b0")
			w.check(3, "b0")
		}},
		{"connections are cut and the members stay", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.cut("a")
			w.cut("b")
			w.check(2, "a0 b1")
		}},
		{"an unknown leave frees a seat in a full room", Options{Capacity: 1}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.cut("a")
			w.join("b", 2, 0, "b0")
			w.check(2, "b0")
		}},
		{"an unknown leave, then another seat", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.cut("a")
			w.join("a", 3, 5, "a5")
			w.check(3, "a5")
		}},
		{"an unknown leave and join that the end shows", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("a", Leave)
			w.unknown("a", Join)
			w.cut("a")
			w.check(3, "a3")
		}},
		{"a snapshot shows a leave whose answer is lost", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.snapshot("a", 2, "")
			w.unknown("a", Leave)
			w.check(2, "")
		}},
		{"an unknown leave and join, and events go on", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("a", Leave)
			w.unknown("a", Join)
			w.event("a", 4, "+b1")
			w.check(4, "a0 b1")
		}},
		{"an unknown leave and join, and one more join is answered", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("a", Leave)
			w.listed("b", 2, "")
			w.unknown("a", Join)
			w.event("a", 4, "+b1")
			w.join("a", 4, 0, "a0 b1")
			w.join("b", 4, 1, "a0 b1")
			w.check(4, "a0 b1")
		}},
		{"an unknown leave and join on another seat, and one more join is answered", Options{}, func(w *world) {
			w.join("a", 1, 1, "a1 b0")
			w.join("b", 1, 0, "a1 b0")
			w.unknown("a", Join)
			w.cut("a")
			w.unknown("b", Leave)
			w.snapshot("b", 2, "a1")
			w.unknown("b", Join)
			w.join("a", 6, 0, "a0 b1")
			w.event("b", 6, "")
			w.check(6, "a0 b1")
		}},
		{"an unknown join on a seat that only lists show", Options{}, func(w *world) {
			w.unknown("b", Join)
			w.join("a", 1, 0, "a0 b7")
			w.event("a", 2, "-b")
			w.check(2, "a0")
		}},
		{"many unknown outcomes, and an event at the end", Options{}, func(w *world) {
			list := ""
			for i, user := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
				list += fmt.Sprintf(" %s%d", user, 10*i)
				w.l.Unknown("r", user, Join, 0)
			}
			w.join("z", 2, 995, list+" z995") // too many to try
			w.event("z", 3, "-a")
			w.check(3, list[3:]+" z995")
		}},
		{"many unknown outcomes at once", Options{}, func(w *world) {
			list := ""
			for i, user := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
				list += fmt.Sprintf(" %s%d", user, 10*i)
				w.l.Unknown("r", user, Join, 0)
			}
			w.join("z", 2, 995, list+" z995") // too many to try
			w.event("z", 3, "-a")
			w.event("z", 4, "+a7")
			w.leave("z", 5, 12)
			w.check(5, list[3:]+" a7")
		}},
		{"many unknown leaves, some committed", Options{}, func(w *world) {
			w.l.Start("r", RoomState{"e1", 1, members("a0 b1 c2 d3 e4 f5 g6 h7 i8")})
			for _, user := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				w.l.Unknown("r", user, Leave, 1)
			}
			w.join("z", 4, 0, "z0 b1 d3 f5 i8")
			w.event("z", 5, "-b")
			w.check(5, "z0 d3 f5 i8")
		}},
	}
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
