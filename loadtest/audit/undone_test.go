package audit

import (
	"slices"
	"testing"
)

// undone is a closed room with a host, who was to change places with x of another room, and has the seat and the host's part
// again. c is what the journal says of the host then.
func undone(c object) *world {
	w := newWorld()
	w.commit("n1", w.join("a", "n1", 1, false)...)
	w.now += 10
	w.commit("n2", w.join("b", "n2", 0, false)...)
	w.commit("n1", append(w.configure(object{"capacity": 2, "host": hostLongest}), w.appoint()...)...)
	was := *w.members["a"]
	reserve := func(user, session string) []object {
		changes := w.join(user, "n1", 1, false)
		w.members[user].Session, changes[0]["session"] = session, session
		return changes
	}
	w.commit("n1", slices.Concat(w.leave("a", reasonMoved), reserve("x", "~+r"), w.appoint())...)
	w.commit("n1", w.configure(object{"capacity": 2, "host": hostLongest, "closed": true})...)
	back := w.leave("x", "left")
	w.settings["closed"] = false
	back = append(back, reserve("a", "~+r")...)
	w.settings["closed"] = true
	w.members["a"].At, back[1]["at"], back[1]["again"] = was.At, was.At, true
	w.host = "a"
	w.commit("n1", append(back, c)...)
	return w
}

// A move that was undone gives back a seat in a closed room, and the host's part, which nothing else does.
func TestOracle_Undone(t *testing.T) {
	again := func(user string) object { return object{"type": typeHost, "user": user, "again": true} }
	w := undone(again("a"))
	if found := judge(t, w.commits, w.final()); len(found) > 0 {
		t.Errorf("it finds\n%s", text(found))
	}
	for name, w := range map[string]*world{
		"the host is another one": undone(object{"type": typeHost, "user": "a"}),
		"the host of before was another one": func() *world {
			w := undone(again("a"))
			edit(w, 6, func(_ object, changes []any) { changes[2].(object)["user"] = "x" })
			return w
		}(),
	} {
		if found := judge(t, w.commits, w.final()); !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == RuleHost }) {
			t.Errorf("%s: it finds\n%s", name, text(found))
		}
	}
	w = undone(again("a"))
	edit(w, 6, func(_ object, changes []any) { changes[1].(object)["session"] = "s9" })
	if found := judge(t, w.commits, w.final()); !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == RuleClosed }) {
		t.Errorf("a join by a session that nothing was reserved for: it finds\n%s", text(found))
	}
}

// recalled is a room with a host, who is away, and of which Redis has kept so many commits of three, with the journal: a node brings back what
// it knew.
func recalled(kept int) *world {
	w := newWorld()
	w.commit("n1", w.join("a", "n1", 1, true)...)
	w.now += 10
	w.commit("n2", w.join("b", "n2", 0, false)...)
	w.commit("n1", append(w.configure(object{"capacity": 2, "host": hostLongest}), w.appoint()...)...)
	w.host = "a"
	w.begin("e2", uint64(kept))
	w.version, w.commits = 3, w.commits[:kept]
	changes := []object{{"type": typeSettings, "user": "", "seat": 0, "settings": w.settings, "again": true}}
	for i, user := range []string{"a", "b"} {
		if m := w.members[user]; i >= kept {
			changes = append(changes, object{"type": typeJoin, "user": user, "seat": m.Seat, "session": m.Session, "at": m.At, "of": m.Node, "again": true})
		}
	}
	w.commit("n3", append(changes, object{"type": typeHost, "user": "a", "again": true})...)
	return w
}

// What a node knew comes back in an epoch that goes on behind that, also where Redis has an old copy, or nothing at all.
func TestOracle_Recalled(t *testing.T) {
	for kept := range 3 {
		w := recalled(kept)
		if found := judge(t, w.commits, w.final()); len(found) > 0 {
			t.Errorf("behind %d commits it finds\n%s", kept, text(found))
		}
		edit(w, kept+1, func(_ object, changes []any) {
			for _, c := range changes {
				delete(c.(object), "again")
			}
		})
		if found := judge(t, w.commits, w.final()); len(found) == 0 {
			t.Errorf("behind %d commits it finds nothing where nothing says that it comes back", kept)
		}
	}
}
