package history

import "testing"

func configure(s string) Request { return Request{Action: Configure, Settings: *rules(s)} }

func TestSettings_Followed(t *testing.T) {
	two := func(w *world) { // seats
		w.rules = rules("2")
		w.join("a", 1, 0, "a0")
	}
	end := func(w *world, version uint64, list, settings string) {
		w.rules = rules(settings)
		w.check(version, list)
	}
	seeAnomalies(t, []anomaly{
		{"more seats", Options{}, func(w *world) {
			two(w)
			w.admin(2, configure("3"))
			w.event("a", 2, "%3")
			w.event("a", 3, "+b1 +c2")
			end(w, 3, "a0 b1 c2", "3")
		}, Counts{}},
		{"more seats, and they are taken, in one event", Options{}, func(w *world) {
			two(w)
			w.span("a", 1, 3, "%3 +b1 +c2")
			end(w, 3, "a0 b1 c2", "3")
		}, Counts{}},
		{"they bind before the capacity of the run", Options{Capacity: 1}, func(w *world) {
			two(w)
			w.event("a", 2, "+b1")
			end(w, 2, "a0 b1", "2")
		}, Counts{}},
		{"set to what they are", Options{}, func(w *world) {
			two(w)
			w.admin(1, configure("2"))
			end(w, 1, "a0", "2")
		}, Counts{}},
		{"closed, and opened again", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "%2c")
			w.event("a", 3, "%2")
			w.event("a", 4, "+b1")
			end(w, 4, "a0 b1", "2")
		}, Counts{}},
		{"nobody sees them change", Options{}, func(w *world) {
			two(w)
			w.admin(2, configure("1"))
			end(w, 2, "a0", "1")
		}, Counts{}},
		{"they change with an unknown outcome", Options{}, func(w *world) {
			two(w)
			w.l.Unanswered("r", configure("1"), 0)
			end(w, 2, "a0", "1")
		}, Counts{}},
		{"too many for the settings in force", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "%1")
			w.event("a", 3, "+b0")
			end(w, 3, "a0 b0", "1")
		}, Counts{Oversold: 1, SeatClash: 1}},
		{"a seat that there is not", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "+b2")
			end(w, 2, "a0 b2", "2")
		}, Counts{Oversold: 1}},
		{"settings for fewer than there are", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "+b1")
			w.admin(3, configure("1"))
			w.event("a", 3, "%1")
			end(w, 3, "a0 b1", "1")
		}, Counts{Oversold: 2}}, // too many, and b on a seat that there is not
		{"settings with fewer seats than somebody sits on", Options{}, func(w *world) {
			w.rules = rules("9")
			w.join("a", 1, 5, "a5")
			w.admin(2, configure("5"))
			w.event("a", 2, "%5")
			end(w, 2, "a5", "5")
		}, Counts{Oversold: 1}},
		{"a list has too many for its settings", Options{}, func(w *world) {
			w.rules = rules("1")
			w.listed("a", 1, "b0 c1")
		}, Counts{Oversold: 2}},
		{"too many at the end", Options{}, func(w *world) {
			w.view("x").Unknown(Join)
			w.view("y").Unknown(Join)
			end(w, 2, "x0 y1", "1")
		}, Counts{Oversold: 1}},
		{"somebody comes into a closed room", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "%2c")
			w.event("a", 3, "+b1")
			end(w, 3, "a0 b1", "2c")
		}, Counts{Intruder: 1}},
		{"acknowledged settings are not in their version", Options{}, func(w *world) {
			two(w)
			w.admin(2, configure("3"))
			w.event("a", 2, "")
			end(w, 2, "a0", "2")
		}, Counts{Lost: 1}},
		{"acknowledged settings are not what others see", Options{}, func(w *world) {
			two(w)
			w.admin(2, configure("3"))
			w.event("a", 2, "%4")
			end(w, 2, "a0", "4")
		}, Counts{Lost: 1}},
		{"settings that nobody saw change", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "")
			end(w, 2, "a0", "3")
		}, Counts{Diverged: 1}},
		{"a list has other settings than an event", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "%3")
			w.listed("b", 2, "a0")
			end(w, 2, "a0", "3")
		}, Counts{Diverged: 1}},
		{"set at another version than expected", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "")
			q := configure("3")
			q.Expect = at(1)
			w.admin(3, q)
			w.event("a", 3, "%3")
			end(w, 3, "a0", "3")
		}, Counts{Conflict: 1}},
		{"two set them at once, both as expected", Options{}, func(w *world) {
			two(w)
			for _, s := range []string{"3", "4"} {
				q := configure(s)
				q.Expect = at(1)
				w.admin(2, q)
			}
			w.event("a", 2, "%3 %4")
			end(w, 2, "a0", "4")
		}, Counts{Conflict: 1}},
		{"refused at the version that was expected", Options{}, func(w *world) {
			two(w)
			q := configure("3")
			q.Expect = at(1)
			w.l.Conflict("r", q, Reply{Epoch: "e1", Version: 1})
			end(w, 1, "a0", "2")
		}, Counts{Conflict: 1}},
		{"refused at another version", Options{}, func(w *world) {
			two(w)
			w.event("a", 2, "")
			q := configure("3")
			q.Expect = at(1)
			w.l.Conflict("r", q, Reply{Epoch: "e1", Version: 2})
			end(w, 2, "a0", "2")
		}, Counts{}},
	})
}
