package history

import "testing"

// Away and back are versions that change no list, and concern a member; so are settings. Who was
// cut off may be away at a version that nobody saw.
func TestAway_AndBack(t *testing.T) {
	both := func(w *world) {
		w.join("a", 1, 0, "a0")
		w.join("b", 2, 1, "a0 b1")
		w.event("a", 2, "+b1")
	}
	seeAnomalies(t, []anomaly{
		{"away, back, away and gone", Options{}, func(w *world) {
			both(w)
			w.cut("b")
			w.event("a", 3, "?b1")
			w.join("b", 4, 1, "a0 b1")
			w.event("a", 4, "!b1")
			w.event("a b", 5, "?a0")
			w.event("b", 6, "-a")
			w.check(6, "b1")
		}, Counts{}},
		{"all of it in one event, with a rejoin", Options{}, func(w *world) {
			both(w)
			w.cut("b")
			w.span("a", 2, 5, "?b1 -b +b1")
			w.check(5, "a0 b1")
		}, Counts{}},
		{"other settings", Options{}, func(w *world) {
			both(w)
			for _, user := range []string{"a", "b"} {
				w.view(user).Changed(Event{"e1", 3, 2, []Change{{Type: Settings}}})
			}
			w.check(3, "a0 b1")
		}, Counts{}},
		{"away and gone while nobody looks", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.cut("a")
			w.check(3, "")
		}, Counts{}},
		{"away while nobody looks, but nobody was cut off", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.check(2, "a0")
		}, Counts{VersionGap: 1}},
		{"a reserved seat lapses while nobody looks", Options{}, func(w *world) {
			w.admin(1, group(Reserve, "a0 b1"))
			w.l.MayLeave("r", "a", 1)
			w.l.MayLeave("r", "b", 1)
			w.check(3, "")
		}, Counts{}},
		{"a reserved seat lapses while nobody looks, and somebody comes later", Options{}, func(w *world) {
			w.admin(1, group(Reserve, "a0"))
			w.l.MayLeave("r", "a", 1)
			w.join("b", 3, 0, "b0")
			w.check(3, "b0")
		}, Counts{}},
		{"a reserved seat lapses while nobody looks, and its user comes later", Options{}, func(w *world) {
			w.admin(1, group(Reserve, "a0"))
			w.l.MayLeave("r", "a", 1)
			w.join("a", 3, 0, "a0")
			w.check(3, "a0")
		}, Counts{}},
		{"who came to a reserved seat does not lose it", Options{}, func(w *world) {
			w.admin(1, group(Reserve, "a0"))
			w.l.MayLeave("r", "a", 1)
			w.join("a", 2, 0, "a0")
			w.check(3, "")
		}, Counts{VersionGap: 1, Lost: 1}},
		{"who is moved in is back while nobody looks", Options{}, func(w *world) {
			w.admin(1, group(MoveIn, "a0"))
			w.join("b", 3, 1, "a0 b1")
			w.event("b", 4, "-a")
			w.check(4, "b1")
		}, Counts{}},
		{"who is moved in is back, and nothing explains another version", Options{}, func(w *world) {
			w.join("b", 1, 1, "b1")
			w.admin(2, group(MoveIn, "a0"))
			w.event("b", 2, "+a0?")
			w.event("b", 3, "!a0")
			w.leave("b", 5, 1)
			w.check(5, "a0")
		}, Counts{VersionGap: 1}},
		{"who has left a room that closed unseen is not ready any more", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.event("a b", 3, "*a0!")
			w.view("a").Done(Request{Action: SetReady, By: "a", Ready: true}, Reply{"e1", 3, ""}, 2)
			w.admin(4, Request{Action: Close})
			w.join("c", 5, 0, "c0")
			w.event("c", 6, "+a1")
			w.join("a", 6, 1, "c0 a1")
			w.view("a").Done(Request{Action: SetReady, By: "a"}, Reply{"e1", 6, ""}, 2)
			w.check(6, "a1 c0")
		}, Counts{}},
		{"a list lacks who is away", Options{}, func(w *world) {
			both(w)
			w.event("a", 3, "?b1")
			w.listed("b", 3, "a0 b1")
			w.check(3, "a0 b1?")
		}, Counts{Diverged: 1}},
		{"away in the list, and back", Options{}, func(w *world) {
			both(w)
			w.listed("b", 3, "a0? b1")
			w.event("b", 3, "?a0")
			w.event("b", 4, "!a0")
			w.check(4, "a0 b1")
		}, Counts{}},
		{"away without being there", Options{}, func(w *world) {
			both(w)
			w.event("a b", 3, "?c2")
			w.check(3, "a0 b1")
		}, Counts{Phantom: 1}},
		{"away twice", Options{}, func(w *world) {
			both(w)
			w.event("a", 3, "?b1")
			w.event("a", 4, "?b1")
			w.check(4, "a0 b1")
		}, Counts{Diverged: 1}},
		{"back without having been away", Options{}, func(w *world) {
			both(w)
			w.event("a", 3, "!b1")
			w.check(3, "a0 b1")
		}, Counts{Diverged: 1}},
		{"away on another seat", Options{}, func(w *world) {
			both(w)
			w.event("a", 3, "?b0")
			w.check(3, "a0 b1")
		}, Counts{Diverged: 1}},
		{"one is told that b is away, and another one that a is", Options{}, func(w *world) {
			both(w)
			w.event("a", 3, "?b1")
			w.event("b", 3, "?a0")
			w.check(3, "a0 b1")
		}, Counts{Diverged: 1}},
		{"an acknowledged leave is only shown as away", Options{}, func(w *world) {
			both(w)
			w.leave("b", 3, 1)
			w.event("a", 3, "?b1")
			w.check(3, "a0 b1")
		}, Counts{Diverged: 1}},
	})
}
