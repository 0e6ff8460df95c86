package history

import (
	"slices"
	"testing"
)

// Each of these breaks a correct run in what is not about seats; see mutations.
var contentMutations = map[string]func(m *simulation, trace []step, final *RoomState) Kind{
	"other data in the end": func(m *simulation, _ []step, final *RoomState) Kind {
		if m.version == 0 {
			return ""
		}
		final.Data += "x"
		return Diverged
	},
	"other settings in the end": func(_ *simulation, trace []step, final *RoomState) Kind {
		closed := func(s step) bool { return s.q.Action == Close } // what it leaves is not known if nobody saw it
		listed := func(s step) bool { return (s.what == "joined" || s.what == "listed") && s.list.Settings != nil }
		if final.Settings == nil || !slices.ContainsFunc(trace, listed) || slices.ContainsFunc(trace, closed) {
			return ""
		}
		final.Settings = &Rules{Capacity: final.Settings.Capacity + 50, Closed: true}
		return "any"
	},
	"another state in the end": func(m *simulation, _ []step, final *RoomState) Kind {
		if len(final.Users) == 0 {
			return ""
		}
		final.Users[m.index(len(final.Users))].Data += "x"
		return Diverged
	},
	"a list has other data": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "joined" && !merged(trace, trace[i].list.Version) }, func(s *step) { s.list.Data += "x" }, Diverged)
	},
	"a list has another state": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "joined" && !merged(trace, trace[i].list.Version) }, func(s *step) {
			s.list.Users = slices.Clone(s.list.Users)
			s.list.Users[0].Ready = !s.list.Users[0].Ready
		}, Diverged)
	},
	"a message is not delivered": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "changed" && says(trace[i].event.Changes) >= 0 }, func(s *step) {
			s.event.Changes = slices.Clone(s.event.Changes)
			at := says(s.event.Changes)
			s.event.Changes = slices.Delete(s.event.Changes, at, at+1)
		}, "any")
	},
	"a message has other words": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "changed" && says(trace[i].event.Changes) >= 0 }, func(s *step) {
			s.event.Changes = slices.Clone(s.event.Changes)
			s.event.Changes[says(s.event.Changes)].Text += "x"
		}, "any")
	},
	"a conflict has no reason": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "conflict" || trace[i].what == "admin conflict" },
			func(s *step) { s.q.Expect = at(s.list.Version) }, Conflict)
	},
	"a conflict tells other data": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "conflict" && trace[i].q.Action == SetData },
			func(s *step) { s.there += "x" }, Diverged)
	},
	"nobody asked for what an administrator did": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool {
			alone := 0 // at its version: a request that changes nothing is evidence of a version, too
			for _, s := range trace {
				if s.list.Version == trace[i].list.Version {
					alone++
				}
			}
			return alone == 1 && trace[i].what == "admin" && trace[i].seat > 0 && slices.Contains([]string{Kick, SetData}, trace[i].q.Action)
		}, func(s *step) { s.what = "refused" }, "any")
	},
	"one loses the seat for another reason": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "lost" }, func(s *step) { s.action = Moved }, "any")
	},
	"one is told to have lost the seat": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool {
			joined := func(s step) bool { return s.what == "joined" && s.session == trace[i].session }
			return trace[i].what == "changed" && slices.ContainsFunc(trace[:i], joined)
		}, func(s *step) { s.what, s.action = "lost", Moved }, "any")
	},
}

// merged reports whether somebody got the version in one event with others, so that it may
// have been in any of them.
func merged(trace []step, v uint64) bool {
	return slices.ContainsFunc(trace, func(s step) bool {
		e := s.event
		return e.Version > e.From+1 && e.From < v && e.Version >= v
	})
}

// says returns the place of a message among the changes, -1 if there is none.
func says(all []Change) int {
	return slices.IndexFunc(all, func(c Change) bool { return c.Type == Said })
}

func TestMutations_Content(t *testing.T) {
	for name, mutate := range contentMutations {
		t.Run(name, func(t *testing.T) { findMutation(t, mutate) })
	}
}
