package history

import "testing"

func TestSpeech_Messages(t *testing.T) {
	two := func(w *world) {
		three(w)
	}
	hi, psst := Request{Action: Say, Text: "hi"}, Request{Action: Say, Text: "psst", To: []string{"b"}}
	end := func(w *world, version uint64) { w.check(version, "a0 b1 c2") }
	seeAnomalies(t, []anomaly{
		{"all get it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.event("a b c", 4, `"a:hi`)
			end(w, 4)
		}, Counts{}},
		{"all get two, one of them in one event", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.done("b", 5, 3, hi)
			w.event("a b", 4, `"a:hi`)
			w.event("a b", 5, `"b:hi`)
			w.span("c", 3, 5, `"a:hi "b:hi`)
			end(w, 5)
		}, Counts{}},
		{"twice the same", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.done("a", 4, 3, hi)
			w.event("a b c", 4, `"a:hi "a:hi`)
			end(w, 4)
		}, Counts{}},
		{"nobody is there to get it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			end(w, 4)
		}, Counts{}},
		{"with an unknown outcome", Options{}, func(w *world) {
			two(w)
			q := hi
			q.By = "a"
			w.view("a").Unanswered(q)
			w.event("a b c", 4, `"a:hi`)
			end(w, 4)
		}, Counts{}},
		{"a snapshot stands for it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.event("a", 4, `"a:hi`)
			w.snapshot("b", 4, "a0 b1 c2")
			end(w, 4)
		}, Counts{}},
		{"one gets no event of it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.event("a b", 4, `"a:hi`)
			w.event("c", 4, "")
			end(w, 4)
		}, Counts{Diverged: 1}},
		{"nobody gets it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.event("a b c", 4, "")
			end(w, 4)
		}, Counts{Lost: 1}},
		{"nobody gets it in a merged event", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.span("a b c", 3, 5, "")
			end(w, 5)
		}, Counts{Lost: 1}},
		{"all get other words", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.event("a b c", 4, `"a:ho`)
			end(w, 4)
		}, Counts{Lost: 1, Phantom: 1}},
		{"all get it twice", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.event("a b c", 4, `"a:hi "a:hi`)
			end(w, 4)
		}, Counts{Duplicate: 1}},
		{"all get it again, a version later", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.event("a b c", 4, `"a:hi`)
			w.event("a b c", 5, `"a:hi`)
			end(w, 5)
		}, Counts{Phantom: 1}},
		{"in another order", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, hi)
			w.done("b", 4, 3, hi)
			w.event("a b", 4, `"a:hi "b:hi`)
			w.event("c", 4, `"b:hi "a:hi`)
			end(w, 4)
		}, Counts{Diverged: 1}},

		{"to one", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("a b", 4, `"a:psst>b`)
			w.event("c", 4, "")
			end(w, 4)
		}, Counts{}},
		{"to one who gets a snapshot", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("a", 4, `"a:psst>b`)
			w.snapshot("b", 4, "a0 b1 c2")
			w.event("b a", 5, "")
			end(w, 5)
		}, Counts{}},
		{"to one, in a merged event", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("a", 4, `"a:psst>b`)
			w.event("a", 5, ``)
			w.span("b", 3, 5, `"a:psst>b`)
			end(w, 5)
		}, Counts{}},
		{"with an unknown outcome, to one", Options{}, func(w *world) {
			two(w)
			q := psst
			q.By = "a"
			w.view("a").Unanswered(q)
			w.event("a b", 4, `"a:psst>b`)
			end(w, 4)
		}, Counts{}},
		{"the one does not get it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("a", 4, `"a:psst>b`)
			w.event("b", 4, "")
			end(w, 4)
		}, Counts{Lost: 1}},
		{"the sender does not get it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("b", 4, `"a:psst>b`)
			w.event("a", 4, "")
			end(w, 4)
		}, Counts{Lost: 1}},
		{"the one does not get it in a merged event", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.span("b", 3, 5, "")
			end(w, 5)
		}, Counts{Lost: 1}},
		{"the one gets it twice", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("b", 4, `"a:psst>b "a:psst>b`)
			end(w, 4)
		}, Counts{Duplicate: 1}},
		{"the one gets it a version later", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("b", 4, "")
			w.event("b", 5, `"a:psst>b`)
			end(w, 5)
		}, Counts{Lost: 1, Diverged: 1}},
		{"another one gets it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("a b c", 4, `"a:psst>b`)
			end(w, 4)
		}, Counts{Diverged: 1}},
		{"all get it", Options{}, func(w *world) {
			two(w)
			w.done("a", 4, 3, psst)
			w.event("a b c", 4, `"a:psst`)
			end(w, 4)
		}, Counts{Lost: 2, Phantom: 1}},
	})
}
