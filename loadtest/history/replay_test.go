package history

import "testing"

func TestReplay_Anomalies(t *testing.T) {
	seeAnomalies(t, []anomaly{
		{"an acknowledged join is not in the commit", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "+b1")
			w.l.room("r").acknowledge("e1", ack{2, "c", 2, true})
			w.check(2, "a0 b1")
		}, Counts{Lost: 1}},
		{"an acknowledged leave is not in the commit", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.event("a", 2, "+b1")
			w.event("a", 3, "")
			w.leave("b", 3, 2)
			w.check(3, "a0 b1")
		}, Counts{Lost: 1}},
		{"an acknowledged leave is not in a merged event", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.join("b", 2, 1, "a0 b1")
			w.leave("b", 3, 2)
			w.span("a", 1, 4, "+b1 +c2")
			w.check(4, "a0 b1 c2")
		}, Counts{Lost: 1}},
		{"a join is acknowledged and committed on two seats", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "+b1")
			w.l.room("r").acknowledge("e1", ack{2, "b", 2, true})
			w.check(2, "a0 b1")
		}, Counts{Diverged: 1}},
		{"one more join is acknowledged on another seat", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "+b1")
			w.l.room("r").acknowledge("e1", ack{2, "a", 5, true})
			w.check(2, "a0 b1")
		}, Counts{Diverged: 1}},
		{"an acknowledged join is not in the commit, but is in the end", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "+b1")
			w.l.room("r").acknowledge("e1", ack{2, "c", 2, true})
			w.check(2, "a0 b1 c2")
		}, Counts{Lost: 1}},
		{"one more join is acknowledged on another seat, unseen", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.cut("a")
			w.l.room("r").acknowledge("e1", ack{2, "b", 1, true})
			w.l.room("r").acknowledge("e1", ack{3, "b", 5, true})
			w.check(3, "a0 b1")
		}, Counts{Diverged: 1}},
		{"a version that is in no message", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 0)
			w.join("b", 4, 0, "b0")
			w.check(4, "b0")
		}, Counts{VersionGap: 1}},
		{"a last version that is in no message", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.check(2, "a0")
		}, Counts{VersionGap: 1}},
		{"more versions than unknown outcomes", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 0)
			w.unknown("a", Join)
			w.check(4, "a0")
		}, Counts{VersionGap: 1}},
		{"an unknown join leaves no trace by itself", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("b", Join)
			w.unknown("a", Leave)
			w.join("c", 3, 1, "a0 c1")
			w.check(3, "a0 c1")
		}, Counts{VersionGap: 1}},
		{"an unknown join from after the version", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 0)
			w.join("c", 4, 0, "c0")
			w.l.room("r").addUnknown("c", Leave, 4)
			w.l.room("r").addUnknown("b", Join, 4)
			w.check(4, "c0")
		}, Counts{VersionGap: 1}},
		{"an unknown join that was seen explains nothing more", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("b", Join)
			w.event("a", 2, "+b1")
			w.leave("a", 3, 1)
			w.check(4, "b1")
		}, Counts{VersionGap: 1}},
		{"an unknown join that was seen in a merged event explains nothing more", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.unknown("b", Join)
			w.span("a", 1, 3, "+b1")
			w.leave("a", 4, 1)
			w.check(5, "b1")
		}, Counts{VersionGap: 1}},
		{"an unknown leave does not make room before it was asked for", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.l.room("r").addUnknown("a", Leave, 2)
			w.l.room("r").acknowledge("e1", ack{2, "b", 0, true})
			w.check(2, "a0 b0")
		}, Counts{SeatClash: 1}},
		{"a leave of who was not there, unseen", Options{}, func(w *world) {
			w.leave("a", 1, 0)
			w.check(1, "")
		}, Counts{Phantom: 1}},
		{"an acknowledged leave is not in the next list", Options{}, func(w *world) {
			w.l.Start("r", RoomState{Epoch: "e1", Version: 1, Users: members("a0 b1")})
			w.leave("a", 2, 2)
			w.join("b", 2, 1, "a0 b1")
			w.check(2, "a0 b1")
		}, Counts{Lost: 1}},
		{"a list that the history does not make", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.event("a", 2, "+b1")
			w.listed("c", 1, "a0")
			w.leave("a", 3, 1)
			w.leave("b", 4, 0)
			w.join("c", 5, 0, "c0 x4")
			w.leave("c", 6, 1)
			w.check(6, "")
		}, Counts{Diverged: 1}},
		{"a count that the history does not make", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.leave("a", 2, 1)
			w.check(2, "")
		}, Counts{Diverged: 1}},
		{"a list within a merged event that it does not make", Options{}, func(w *world) {
			w.join("a", 1, 0, "a0")
			w.listed("x", 3, "a0 c2")
			w.span("a", 1, 4, "+b1 +c2 +d3")
			w.check(4, "a0 b1 c2 d3")
		}, Counts{Diverged: 1}},
		{"a batch loses one of its joins", Options{}, func(w *world) {
			w.l.room("r").acknowledge("e1", ack{1, "b", 1, true})
			w.join("a", 1, 0, "a0")
			w.check(1, "a0")
		}, Counts{Lost: 1}},
	})
}
