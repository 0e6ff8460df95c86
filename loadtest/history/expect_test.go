package history

import "testing"

func set(data string, expect *uint64) Request {
	return Request{Action: SetData, Data: data, Expect: expect}
}

func TestData_Expected(t *testing.T) {
	two := func(w *world) {
		w.join("a", 1, 0, "a0")
		w.join("b", 2, 1, "a0 b1")
		w.event("a", 2, "+b1")
	}
	end := func(w *world, version uint64, data string) {
		w.data = data
		w.check(version, "a0 b1")
	}
	seeAnomalies(t, []anomaly{
		{"one sets it, and another one sees it", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.event("a b", 3, "#a:7")
			w.data = "7"
			w.listed("b", 3, "a0 b1")
			end(w, 3, "7")
		}, Counts{}},
		{"set to what it is, which is no version", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.event("a b", 3, "#a:7")
			w.done("b", 3, 2, set("7", nil))
			end(w, 3, "7")
		}, Counts{}},
		{"nobody sees the versions", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.done("b", 4, 2, set("8", at(3)))
			end(w, 4, "8")
		}, Counts{}},
		{"the outcome is unknown", Options{}, func(w *world) {
			two(w)
			w.view("a").Unanswered(set("7", nil))
			end(w, 3, "7")
		}, Counts{}},
		{"two at an unseen version", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.done("b", 3, 2, set("8", nil))
			end(w, 3, "7")
		}, Counts{}},
		{"nobody set it", Options{}, func(w *world) {
			two(w)
			end(w, 2, "7")
		}, Counts{Diverged: 1}},
		{"an acknowledged value is gone at the end", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.event("a b", 3, "#a:7")
			end(w, 3, "")
		}, Counts{Diverged: 1}},
		{"an acknowledged value is not in its version", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.event("a b", 3, "#a:8")
			end(w, 3, "8")
		}, Counts{Lost: 1, Phantom: 1}},
		{"an acknowledged value is nowhere", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.event("a b", 3, "")
			end(w, 3, "")
		}, Counts{Lost: 1}},
		{"a list has older data", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.event("a", 3, "#a:7")
			w.listed("b", 3, "a0 b1")
			end(w, 3, "7")
		}, Counts{Diverged: 1}},
		{"a refused value is there", Options{}, func(w *world) {
			two(w)
			w.done("a", 3, 2, set("7", nil))
			w.event("a b", 3, "#a:7")
			w.conflict("b", 4, "8", set("8", at(2)))
			w.event("a b", 4, "#b:8")
			end(w, 4, "8")
		}, Counts{Phantom: 1}},
		{"a list has older data, with nobody there before", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.done("a", 2, 1, set("7", nil))
			w.event("a", 2, "#a:7")
			w.leave("a", 3, 0)
			w.join("b", 4, 0, "b0")
			w.data = "7"
			w.snapshot("b", 5, "b0")
			w.view("x").Unknown(Away)
			w.check(5, "b0")
		}, Counts{Diverged: 2}}, // it is gone, and there again
	})
}

func TestData_CompareAndSet(t *testing.T) {
	race := func(w *world) { // data is of version 3 then
		w.join("a", 1, 0, "a0")
		w.join("b", 2, 1, "a0 b1")
		w.event("a", 2, "+b1")
		w.done("a", 3, 2, set("3", at(2)))
		w.event("a b", 3, "#a:3")
	}
	end := func(w *world, version uint64, data string) {
		w.data = data
		w.check(version, "a0 b1")
	}
	seeAnomalies(t, []anomaly{
		{"one wins", Options{}, func(w *world) {
			race(w)
			w.done("b", 4, 2, set("4", at(3)))
			w.event("a b", 4, "#b:4")
			w.conflict("a", 4, "4", set("5", at(3)))
			end(w, 4, "4")
		}, Counts{}},
		{"other versions do not matter", Options{}, func(w *world) {
			race(w)
			w.done("a", 4, 2, Request{Action: SetReady, Ready: true})
			w.event("a b", 4, "*a0!")
			w.done("a", 5, 2, Request{Action: SetReady})
			w.event("a b", 5, "*a0")
			w.done("b", 6, 2, set("6", at(3)))
			w.event("a b", 6, "#b:6")
			end(w, 6, "6")
		}, Counts{}},
		{"another epoch is a conflict", Options{}, func(w *world) {
			race(w)
			w.conflict("a", 3, "3", Request{Action: SetData, Data: "5", Expect: at(3), ExpectEpoch: "e0"})
			end(w, 3, "3")
		}, Counts{}},
		{"the last two at one version", Options{}, func(w *world) {
			race(w)
			w.done("a", 4, 2, set("4", at(3)))
			w.done("b", 4, 2, set("5", nil))
			w.event("a b", 4, "#a:4 #b:5")
			end(w, 4, "5")
		}, Counts{}},
		{"an unknown outcome is in the way", Options{}, func(w *world) {
			race(w)
			w.view("b").Unanswered(set("4", at(3)))
			w.conflict("a", 4, "4", set("5", at(3)))
			end(w, 4, "4")
		}, Counts{}},
		{"it replaces what another one has set", Options{}, func(w *world) {
			race(w)
			w.done("b", 4, 2, set("4", at(3)))
			w.event("a b", 4, "#b:4")
			w.done("a", 5, 2, set("5", at(3)))
			w.event("a b", 5, "#a:5")
			end(w, 5, "5")
		}, Counts{Conflict: 1}},
		{"it replaces what another one has set, unseen", Options{}, func(w *world) {
			race(w)
			w.done("b", 4, 2, set("4", at(3)))
			w.done("a", 5, 2, set("5", at(3)))
			end(w, 5, "5")
		}, Counts{Conflict: 1}},
		{"two win at one version", Options{}, func(w *world) {
			race(w)
			w.done("b", 4, 2, set("4", at(3)))
			w.done("a", 4, 2, set("5", at(3)))
			w.event("a b", 4, "#b:4 #a:5")
			end(w, 4, "5")
		}, Counts{Conflict: 1}},
		{"two win at one version that nobody saw", Options{}, func(w *world) {
			race(w)
			w.done("b", 4, 2, set("4", at(3)))
			w.done("a", 4, 2, set("5", at(3)))
			end(w, 4, "5")
		}, Counts{Conflict: 2}}, // nobody knows which is wrong
		{"it wins in another epoch", Options{}, func(w *world) {
			race(w)
			w.done("a", 4, 2, Request{Action: SetData, Data: "5", Expect: at(3), ExpectEpoch: "e0"})
			w.event("a b", 4, "#a:5")
			end(w, 4, "5")
		}, Counts{Conflict: 1}},
		{"it is refused without a reason", Options{}, func(w *world) {
			race(w)
			w.event("a b", 4, "")
			w.conflict("a", 4, "3", set("5", at(3)))
			end(w, 4, "3")
		}, Counts{Conflict: 1}},
		{"it is refused, and told other data", Options{}, func(w *world) {
			race(w)
			w.conflict("a", 3, "2", set("5", at(2)))
			end(w, 3, "3")
		}, Counts{Diverged: 1}},
	})
}
