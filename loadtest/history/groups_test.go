package history

import "testing"

func group(action, list string) Request { return Request{Action: action, Users: members(list)} }

func TestGroups_Parties(t *testing.T) {
	one := func(w *world) { w.join("a", 1, 0, "a0") }
	party := group(Reserve, "b1 c2")
	seeAnomalies(t, []anomaly{
		{"all come, connect and leave", Options{}, func(w *world) {
			one(w)
			w.admin(2, party)
			w.event("a", 2, "+b1? +c2?")
			w.join("b", 3, 1, "a0 b1 c2?")
			w.event("a", 3, "!b1")
			w.admin(4, group(Release, "b1 c2"))
			w.event("a", 4, "-b -c")
			w.leave("b", 4, 1)
			w.check(4, "a0")
		}, Counts{}},
		{"one of them is there, and keeps the seat", Options{}, func(w *world) {
			one(w)
			w.admin(2, group(Reserve, "a0 b1"))
			w.event("a", 2, "+b1?")
			w.check(2, "a0 b1?")
		}, Counts{}},
		{"one of them is there, and the outcome is unknown", Options{}, func(w *world) {
			one(w)
			w.l.Unanswered("r", group(Reserve, "a0 b1"), 0)
			w.event("a", 2, "+b1?")
			w.check(2, "a0 b1?")
		}, Counts{}},
		{"all come unseen", Options{}, func(w *world) {
			one(w)
			w.admin(2, party)
			w.check(2, "a0 b1? c2?")
		}, Counts{}},
		{"all come, with an unknown outcome", Options{}, func(w *world) {
			one(w)
			w.l.Unanswered("r", party, 0)
			w.event("a", 2, "+b1? +c2?")
			w.check(2, "a0 b1? c2?")
		}, Counts{}},
		{"none comes, with an unknown outcome", Options{}, func(w *world) {
			one(w)
			w.l.Unanswered("r", party, 0)
			w.check(1, "a0")
		}, Counts{}},
		{"one of them comes, with an unknown outcome", Options{}, func(w *world) {
			one(w)
			w.l.Unanswered("r", party, 0)
			w.event("a", 2, "+b1?")
			w.check(2, "a0 b1?")
		}, Counts{Torn: 1}},
		{"one of a refused party comes", Options{}, func(w *world) {
			one(w)
			w.l.Refused("r", party)
			w.event("a", 2, "+b1?")
			w.check(2, "a0 b1?")
		}, Counts{Torn: 1}},
		{"one of an acknowledged party comes", Options{}, func(w *world) {
			one(w)
			w.admin(2, party)
			w.event("a", 2, "+b1?")
			w.check(2, "a0 b1?")
		}, Counts{Lost: 1}},
		{"none of an acknowledged party comes", Options{}, func(w *world) {
			one(w)
			w.admin(2, party)
			w.event("a", 2, "")
			w.check(2, "a0")
		}, Counts{Lost: 2}},
		{"one comes one version later", Options{}, func(w *world) {
			one(w)
			w.admin(2, party)
			w.event("a", 2, "+b1?")
			w.event("a", 3, "+c2?")
			w.check(3, "a0 b1? c2?")
		}, Counts{Lost: 1, Phantom: 1}},
		{"two on one seat", Options{}, func(w *world) {
			one(w)
			w.admin(2, group(Reserve, "b1 c1"))
			w.event("a", 2, "+b1? +c1?")
			w.check(2, "a0 b1? c1?")
		}, Counts{SeatClash: 1}},
		{"a seat for which nobody asked", Options{}, func(w *world) {
			one(w)
			w.event("a", 2, "+b1?")
			w.check(2, "a0 b1?")
		}, Counts{Phantom: 1}},
		{"one of an acknowledged group stays", Options{}, func(w *world) {
			one(w)
			w.admin(2, party)
			w.event("a", 2, "+b1? +c2?")
			w.admin(3, group(Release, "b1 c2"))
			w.event("a", 3, "-b")
			w.check(3, "a0 c2?")
		}, Counts{Lost: 1}},
	})
}

func TestGroups_Moves(t *testing.T) {
	out := Request{Action: MoveOut, Users: members("b0 c0"), Target: "r2"}
	in := Request{Action: MoveIn, Users: members("b0 c1"), Target: "r"}
	other := func(w *world, version uint64, list string) *View {
		v := w.l.View("r2", "b", "other-b")
		users := members(list)
		v.Arrives()
		v.Snapshot(List{Epoch: "e", Version: version, Count: len(users), Users: users})
		return v
	}
	check := func(w *world, list, list2 string) {
		w.l.Check(map[string]RoomState{
			"r":  {Epoch: "e1", Version: 4, Users: members(list)},
			"r2": {Epoch: "e", Version: 1, Users: members(list2)},
		})
	}
	moved := func(w *world) {
		three(w)
		w.l.Done("r2", in, Reply{Epoch: "e", Version: 1})
		w.admin(4, out)
		w.event("a", 4, "-b:moved:r2 -c:moved:r2")
		w.lost("b", Moved, "r2")
		w.lost("c", Moved, "r2")
	}
	seeAnomalies(t, []anomaly{
		{"all move", Options{}, func(w *world) {
			moved(w)
			other(w, 1, "b0 c1")
			check(w, "a0", "b0 c1")
		}, Counts{}},
		{"nobody sees it", Options{}, func(w *world) {
			three(w)
			w.l.Done("r2", in, Reply{Epoch: "e", Version: 1})
			w.admin(4, out)
			check(w, "a0", "b0 c1")
		}, Counts{}},
		{"the outcome is unknown", Options{}, func(w *world) {
			three(w)
			w.l.Unanswered("r2", in, 0)
			w.l.Unanswered("r", out, 0)
			w.event("a", 4, "-b:moved:r2 -c:moved:r2")
			check(w, "a0", "b0 c1")
		}, Counts{}},
		{"the list of the other room lacks who was moved", Options{}, func(w *world) {
			moved(w)
			other(w, 1, "c1")
			check(w, "a0", "b0 c1")
		}, Counts{Lost: 1, Diverged: 1}},
		{"one does not come", Options{}, func(w *world) {
			moved(w)
			check(w, "a0", "c1")
		}, Counts{Lost: 1}},
		{"one does not leave", Options{}, func(w *world) {
			three(w)
			w.l.Done("r2", in, Reply{Epoch: "e", Version: 1})
			w.admin(4, out)
			w.event("a", 4, "-b:moved:r2")
			check(w, "a0 c2", "b0 c1")
		}, Counts{Lost: 1}},
		{"one does not leave, and the outcome is unknown", Options{}, func(w *world) {
			three(w)
			w.l.Unanswered("r2", in, 0)
			w.l.Unanswered("r", out, 0)
			w.event("a", 4, "-b:moved:r2")
			check(w, "a0 c2", "b0 c1")
		}, Counts{Torn: 1}},
		{"a refused move takes place in part", Options{}, func(w *world) {
			three(w)
			w.l.Refused("r", out)
			w.event("a", 4, "-b:moved:r2")
			w.l.Check(map[string]RoomState{"r": {Epoch: "e1", Version: 4, Users: members("a0 c2")}})
		}, Counts{Torn: 1, Phantom: 1}},
		{"into another room than the request says", Options{}, func(w *world) {
			three(w)
			w.l.Done("r2", in, Reply{Epoch: "e", Version: 1})
			w.admin(4, out)
			w.event("a", 4, "-b:moved:r3 -c:moved:r2")
			check(w, "a0", "b0 c1")
		}, Counts{Diverged: 1, Phantom: 1, Torn: 1}},
		{"moved back, and kicked before the room is known", Options{}, func(w *world) {
			moved(w)
			w.l.Done("r", Request{Action: MoveIn, Users: members("b1"), Target: "r2"}, Reply{Epoch: "e1", Version: 5})
			w.view("b").Arrives()
			w.event("a", 5, "+b1?")
			w.admin(6, kick("b"))
			w.event("a", 6, "-b:kicked")
			w.lost("b", Kicked, "")
			w.l.Check(map[string]RoomState{
				"r": {Epoch: "e1", Version: 6, Users: members("a0")}, "r2": {Epoch: "e", Version: 1, Users: members("b0 c1")},
			})
		}, Counts{}},
		{"one is told of another room", Options{}, func(w *world) {
			three(w)
			w.l.Done("r2", in, Reply{Epoch: "e", Version: 1})
			w.admin(4, out)
			w.event("a", 4, "-b:moved:r2 -c:moved:r2")
			w.lost("b", Moved, "r3")
			check(w, "a0", "b0 c1")
		}, Counts{Phantom: 1}},
	})
}
