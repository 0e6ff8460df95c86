package history

import "testing"

// three has a, b and c in the room, and each knows all.
func three(w *world) {
	w.join("a", 1, 0, "a0")
	w.join("b", 2, 1, "a0 b1")
	w.event("a", 2, "+b1")
	w.join("c", 3, 2, "a0 b1 c2")
	w.event("a b", 3, "+c2")
}

func kick(user string) Request { return Request{Action: Kick, Users: members(user + "0")} }

func TestRemovals_EachKind(t *testing.T) {
	seeAnomalies(t, []anomaly{
		{"a kick", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a c", 4, "-b:kicked")
			w.lost("b", Kicked, "")
			w.join("b", 5, 1, "a0 b1 c2")
			w.event("a c", 5, "+b1")
			w.check(5, "a0 b1 c2")
		}, Counts{}},
		{"a kick that only the kicked one sees", Options{}, func(w *world) {
			w.join("b", 1, 0, "b0")
			w.admin(2, kick("b"))
			w.event("b", 2, "-b:kicked")
			w.lost("b", Kicked, "")
			w.check(2, "")
		}, Counts{}},
		{"a kick that nobody sees", Options{}, func(w *world) {
			w.join("b", 1, 0, "b0")
			w.admin(2, kick("b"))
			w.lost("b", Kicked, "")
			w.check(2, "")
		}, Counts{}},
		{"a kick with an unknown outcome", Options{}, func(w *world) {
			three(w)
			w.l.Unanswered("r", kick("b"), 0)
			w.event("a c", 4, "-b:kicked")
			w.lost("b", Kicked, "")
			w.check(4, "a0 c2")
		}, Counts{}},
		{"an acknowledged kick that did not happen", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a b c", 4, "")
			w.check(4, "a0 b1 c2")
		}, Counts{Lost: 1}},
		{"an acknowledged kick that the end does not show", Options{}, func(w *world) {
			w.join("b", 1, 0, "b0")
			w.admin(2, kick("b"))
			w.check(2, "b0")
		}, Counts{Lost: 1}},
		{"a kick that nobody asked for", Options{}, func(w *world) {
			three(w)
			w.event("a c", 4, "-b:kicked")
			w.lost("b", Kicked, "")
			w.check(4, "a0 c2")
		}, Counts{Phantom: 1}},
		{"a kick of another", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a b", 4, "-c:kicked")
			w.lost("c", Kicked, "")
			w.check(4, "a0 b1")
		}, Counts{Lost: 1, Phantom: 1}},
		{"a kick that others see as a leave", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a c", 4, "-b:left")
			w.check(4, "a0 c2")
		}, Counts{Diverged: 1}},
		{"one is told that it was kicked, and was not", Options{}, func(w *world) {
			three(w)
			w.lost("b", Kicked, "")
			w.event("a c", 4, "-b:left")
			w.check(4, "a0 c2")
		}, Counts{Phantom: 1}},
		{"one is told so after an older kick", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a c", 4, "-b:kicked")
			w.lost("b", Kicked, "")
			w.join("b", 5, 1, "a0 b1 c2")
			w.event("a c", 5, "+b1")
			w.lost("b", Kicked, "")
			w.event("a c", 6, "-b:left")
			w.check(6, "a0 c2")
		}, Counts{Phantom: 1}},
		{"one is told another reason", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a b c", 4, "-b:kicked")
			w.lost("b", Closed, "")
			w.check(4, "a0 c2")
		}, Counts{Diverged: 1}},
		{"one is told what nobody else saw, and finds the room closed when it is back", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.lost("b", Kicked, "")
			w.join("b", 5, 1, "a0 b1 c2")
			w.snapshot("a", 5, "a0 b1 c2")
			w.snapshot("c", 5, "a0 b1 c2")
			w.admin(6, Request{Action: Close})
			w.event("a b c", 6, "-a:closed -b:closed -c:closed")
			for _, user := range []string{"a", "b", "c"} {
				w.lost(user, Closed, "")
			}
			w.check(6, "")
		}, Counts{}},
		{"one is told an error instead", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a c", 4, "-b:kicked")
			w.lost("b", "room_full", "")
			w.check(4, "a0 c2")
		}, Counts{Diverged: 1}},
		{"one whose leave was refused is told later", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a c", 4, "-b:kicked")
			w.view("b").Gone()
			w.lost("b", Kicked, "")
			w.check(4, "a0 c2")
		}, Counts{}},
		{"one is not told", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a b c", 4, "-b:kicked")
			w.event("a b c", 5, "")
			w.check(5, "a0 c2")
		}, Counts{Diverged: 1}},
		{"an event after lost", Options{}, func(w *world) {
			three(w)
			w.admin(4, kick("b"))
			w.event("a c", 4, "-b:kicked")
			w.lost("b", Kicked, "")
			w.event("a b c", 5, "")
			w.check(5, "a0 c2")
		}, Counts{VersionGap: 1}},
	})
}

func TestRemovals_Close(t *testing.T) {
	shut := Request{Action: Close}
	seeAnomalies(t, []anomaly{
		{"everybody leaves", Options{}, func(w *world) {
			three(w)
			w.admin(4, shut)
			w.event("a b c", 4, "-a:closed -b:closed -c:closed")
			for _, user := range []string{"a", "b", "c"} {
				w.lost(user, Closed, "")
			}
			w.check(4, "")
		}, Counts{}},
		{"and nobody sees it", Options{}, func(w *world) {
			three(w)
			w.admin(4, shut)
			for _, user := range []string{"a", "b", "c"} {
				w.lost(user, Closed, "")
			}
			w.check(4, "")
		}, Counts{}},
		{"with an unknown outcome, and nobody sees it", Options{}, func(w *world) {
			three(w)
			w.l.Unanswered("r", shut, 0)
			for _, user := range []string{"a", "b", "c"} {
				w.lost(user, Closed, "")
			}
			w.check(4, "")
		}, Counts{}},
		{"one stays", Options{}, func(w *world) {
			three(w)
			w.admin(4, shut)
			w.event("a b c", 4, "-a:closed -b:closed")
			w.check(4, "c2")
		}, Counts{Lost: 1}},
		{"one stays, and nobody sees it", Options{}, func(w *world) {
			three(w)
			w.admin(4, shut)
			w.check(4, "c2")
		}, Counts{Lost: 1}},
		{"and nobody asked for it", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "-a:closed")
			w.lost("a", Closed, "")
			w.check(2, "")
		}, Counts{Phantom: 1}},
	})
}

func TestRemovals_Bans(t *testing.T) {
	ban := func(until int64) Request {
		return Request{Action: Kick, Users: members("b0"), BannedUntil: until}
	}
	banned := func(w *world, until int64) {
		w.join("a", 1, 0, "a0")
		w.join("b", 2, 1, "a0 b1")
		w.event("a", 2, "+b1")
		w.admin(3, ban(until))
		w.event("a", 3, "-b:kicked")
		w.lost("b", Kicked, "")
	}
	back := func(w *world, version uint64) {
		w.join("b", version, 1, "a0 b1")
		w.event("a", version, "+b1")
		w.check(version, "a0 b1")
	}
	late := Options{Now: func() int64 { return 1000 }}
	seeAnomalies(t, []anomaly{
		{"the ban is over", late, func(w *world) { banned(w, 1000); back(w, 4) }, Counts{}},
		{"the ban was lifted", late, func(w *world) {
			banned(w, 2000)
			w.admin(4, Request{Action: Unban, Users: members("b0")})
			w.event("a", 4, "")
			back(w, 5)
		}, Counts{}},
		{"the banned one is not there", late, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.admin(2, ban(2000))
			w.event("a", 2, "")
			w.admin(3, ban(3000))
			w.check(3, "a0")
		}, Counts{}},
		{"the banned one stays", late, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.admin(3, ban(2000))
			w.event("a b", 3, "")
			w.check(3, "a0 b1")
		}, Counts{Lost: 1}},
		{"the banned one stays, and nobody sees it", late, func(w *world) {
			w.join("b", 1, 1, "b1")
			w.admin(2, ban(2000))
			w.check(2, "b1")
		}, Counts{Lost: 1}},
		{"the ban is not over", late, func(w *world) { banned(w, 1001); back(w, 4) }, Counts{Intruder: 1}},
		{"without a clock", Options{}, func(w *world) { banned(w, 1); back(w, 4) }, Counts{Intruder: 1}},
	})
}
