package history

import "testing"

func TestState_Members(t *testing.T) {
	two := func(w *world) {
		w.join("a", 1, 0, "a0")
		w.join("b", 2, 1, "a0 b1")
		w.event("a", 2, "+b1")
	}
	ready := Request{Action: SetReady, Ready: true}
	seeAnomalies(t, []anomaly{
		{"ready, data, and gone with the seat", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, ready)
			w.event("a b", 3, "*b1!")
			w.done("b", 4, 2, Request{Action: SetMember, Data: "7"})
			w.event("a b", 4, "*b1!=7")
			w.listed("a", 4, "a0 b1!=7")
			w.leave("b", 5, 1)
			w.event("a", 5, "-b")
			w.join("b", 6, 1, "a0 b1")
			w.event("a", 6, "+b1")
			w.check(6, "a0 b1")
		}, Counts{}},
		{"ready at versions that nobody saw", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, ready)
			w.done("b", 4, 2, Request{Action: SetMember, Data: "7"})
			w.check(4, "a0 b1!=7")
		}, Counts{}},
		{"ready with an unknown outcome", Options{}, func(w *world) {
			two(w)
			ready := ready
			ready.By = "b"
			w.view("b").Unanswered(ready)
			w.check(3, "a0 b1!")
		}, Counts{}},
		{"in one event with others", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, ready)
			w.span("a b", 2, 5, "*b1! +c2 *b1!=7")
			w.check(5, "a0 b1!=7 c2")
		}, Counts{}},
		{"set as expected, after having been there before", Options{}, func(w *world) {
			two(w)
			member := Request{Action: SetMember, Data: "7", Expect: at(0)}
			w.done("b", 3, 2, member)
			w.event("a b", 3, "*b1=7")
			w.leave("b", 4, 1)
			w.event("a", 4, "-b")
			w.join("b", 5, 1, "a0 b1")
			w.event("a", 5, "+b1")
			w.done("b", 6, 2, ready)
			w.event("a b", 6, "*b1!")
			w.done("b", 7, 2, member)
			w.event("a b", 7, "*b1!=7")
			w.check(7, "a0 b1!=7")
		}, Counts{}},
		{"set although it is not as expected", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, Request{Action: SetMember, Data: "7"})
			w.event("a b", 3, "*b1=7")
			w.done("b", 4, 2, Request{Action: SetMember, Data: "8", Expect: at(2)})
			w.event("a b", 4, "*b1=8")
			w.check(4, "a0 b1=8")
		}, Counts{Conflict: 1}},
		{"refused although only the rest of the state has changed", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, ready)
			w.event("a b", 3, "*b1!")
			w.conflict("b", 3, "", Request{Action: SetMember, Data: "8", Expect: at(2)})
			w.check(3, "a0 b1!")
		}, Counts{Conflict: 1}},
		{"ready is acknowledged and not there", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, ready)
			w.event("a b", 3, "")
			w.check(3, "a0 b1")
		}, Counts{Lost: 1}},
		{"a list says ready of who is not", Options{}, func(w *world) {
			two(w)
			w.listed("a", 2, "a0 b1!")
			w.check(2, "a0 b1")
		}, Counts{Diverged: 1}},
		{"the end lacks the data of a member", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, Request{Action: SetMember, Data: "7"})
			w.event("a b", 3, "*b1=7")
			w.check(3, "a0 b1")
		}, Counts{Diverged: 1}},
		{"a state outlives its member", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, ready)
			w.event("a b", 3, "*b1!")
			w.leave("b", 4, 1)
			w.join("b", 5, 1, "a0 b1!")
			w.span("a", 3, 5, "-b +b1")
			w.check(5, "a0 b1!")
		}, Counts{Diverged: 2}}, // to a, and by the history
		{"a state of who is not there", Options{}, func(w *world) {
			two(w)
			w.done("c", 3, 2, ready)
			w.event("a b", 3, "*c2!")
			w.check(3, "a0 b1")
		}, Counts{Phantom: 1}},
		{"a state that nobody asked for", Options{}, func(w *world) {
			two(w)
			w.event("a b", 3, "*b1!")
			w.check(3, "a0 b1!")
		}, Counts{Phantom: 1}},
		{"a state on another seat", Options{}, func(w *world) {
			two(w)
			w.done("b", 3, 2, ready)
			w.event("a b", 3, "*b0!")
			w.check(3, "a0 b1!")
		}, Counts{Diverged: 1}},
	})
}
