package history

import "testing"

// Requests with an unknown outcome may or may not have been committed.
func TestUnknown_Tolerated(t *testing.T) {
	seeNothing(t, []clean{
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
		{"a seat is lost, and the event of it was seen", Options{Capacity: 2}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.event("a", 3, "-a")
			w.event("b", 3, "-a")
			w.join("c", 4, 0, "c0 b1")
			w.event("b", 4, "+c0")
			w.view("a").Lost("", "")
			w.check(4, "c0 b1")
		}},
		{"a seat is lost unseen, and the user joins again", Options{Capacity: 1}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.view("a").Lost("", "")
			w.join("a", 3, 0, "a0")
			w.check(3, "a0")
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
			list := w.twelveUnknownJoins()
			w.join("z", 2, 995, list+" z995") // too many to try
			w.event("z", 3, "-a")
			w.check(3, list[3:]+" z995")
		}},
		{"many unknown outcomes at once", Options{}, func(w *world) {
			list := w.twelveUnknownJoins()
			w.join("z", 2, 995, list+" z995") // too many to try
			w.event("z", 3, "-a")
			w.event("z", 4, "+a7")
			w.leave("z", 5, 12)
			w.check(5, list[3:]+" a7")
		}},
		{"many unknown outcomes, and events that tell of all", Options{}, func(w *world) {
			w.l.Start("r", RoomState{Epoch: "e1", Version: 1, Users: members("y5")})
			w.l.room("r").addUnknown("y", Leave, 1)
			w.join("z", 3, 995, w.twelveUnknownJoins()+" z995")
			w.event("z", 4, "-a -b -c -d -e -f -g -h -i -j -k -l")
			w.event("z", 5, "+y6")
			w.event("z", 6, "")
			w.check(6, "y6 z995")
		}},
		{"many unknown leaves, some committed", Options{}, func(w *world) {
			w.l.Start("r", RoomState{Epoch: "e1", Version: 1, Users: members("a0 b1 c2 d3 e4 f5 g6 h7 i8")})
			for _, user := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				w.l.room("r").addUnknown(user, Leave, 1)
			}
			w.join("z", 4, 0, "z0 b1 d3 f5 i8")
			w.event("z", 5, "-b")
			w.check(5, "z0 d3 f5 i8")
		}},
	})
}
