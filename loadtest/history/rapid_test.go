package history

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A correct server gives no violation, whatever it does and whatever happens to its
// replies.
func TestRapid_CorrectRuns(t *testing.T) {
	tests := []struct {
		name   string
		calm   bool
		budget int
	}{
		{"calm", true, searchBudget},
		{"stormy", false, searchBudget},
		{"stormy, and too much is unknown to try it out", false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newSimulation(t, tt.calm)
				m.budget = tt.budget
				m.run()
				if v := m.prove(m.trace, m.final()); v.Total() != 0 {
					t.Fatalf("found %+v in\n%v\nfinal %v\n%q", v.Counts(), m.trace, m.final(), v.Descriptions())
				}
			})
		})
	}
}

// Each mutation breaks a correct run in one way and returns the kind of violation that the
// check must find. It returns "" if the run has no place for it.
var mutations = map[string]func(m *simulation, trace []step, final *RoomState) Kind{
	"a member is gone in the end": func(m *simulation, _ []step, final *RoomState) Kind {
		if len(final.Users) == 0 {
			return ""
		}
		at := m.index(len(final.Users))
		final.Users = slices.Delete(final.Users, at, at+1)
		return Lost
	},
	"an extra user in the end": func(_ *simulation, _ []step, final *RoomState) Kind {
		final.Users = append(final.Users, Member{User: "x", Seat: 99})
		return Phantom
	},
	"two on one seat in the end": func(m *simulation, _ []step, final *RoomState) Kind {
		if len(final.Users) < 2 {
			return ""
		}
		final.Users[0].Seat = final.Users[1].Seat
		return SeatClash
	},
	"another seat in the end": func(m *simulation, _ []step, final *RoomState) Kind {
		if len(final.Users) == 0 {
			return ""
		}
		final.Users[m.index(len(final.Users))].Seat += 50
		return Diverged
	},
	"a user twice in the end": func(m *simulation, _ []step, final *RoomState) Kind {
		if len(final.Users) == 0 {
			return ""
		}
		final.Users = append(final.Users, final.Users[m.index(len(final.Users))])
		return Duplicate
	},
	"a version too many": func(_ *simulation, _ []step, final *RoomState) Kind {
		final.Epoch = "e"
		final.Version++
		return VersionGap
	},
	"a version is taken back": func(_ *simulation, _ []step, final *RoomState) Kind {
		if final.Version == 0 {
			return ""
		}
		final.Version--
		return Lost
	},
	"an event is not sent": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool {
			next := slices.IndexFunc(trace[i+1:], func(s step) bool { return s.session == trace[i].session && s.what != "listed" && s.what != "refused" })
			return trace[i].what == "changed" && next >= 0 && trace[i+1+next].what == "changed"
		}, func(s *step) { s.what = "refused" }, VersionGap)
	},
	"a joiner is not in the list": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "joined" }, func(s *step) {
			s.list.Users = slices.DeleteFunc(slices.Clone(s.list.Users), func(u Member) bool { return u.User == s.user })
			s.list.Count--
		}, Lost)
	},
	"a list has one user more": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "joined" || trace[i].what == "snapshot" }, func(s *step) {
			s.list.Users = append(slices.Clone(s.list.Users), Member{User: "x", Seat: 98})
			s.list.Count++
		}, Diverged)
	},
	"an answer gives another seat": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "joined" }, func(s *step) { s.seat += 7 }, Diverged)
	},
	"an event joins another user": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool {
			return trace[i].what == "changed" && slices.ContainsFunc(trace[i].event.Changes, func(c Change) bool { return c.Type == Join })
		}, func(s *step) {
			s.event.Changes = slices.Clone(s.event.Changes)
			at := slices.IndexFunc(s.event.Changes, func(c Change) bool { return c.Type == Join })
			s.event.Changes[at].User = "x"
		}, "any")
	},
	"an event loses its changes": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool {
			moved := 0
			for _, c := range trace[i].event.Changes {
				if c.Type == Join || c.Type == Leave {
					moved++
				}
			}
			return trace[i].what == "changed" && moved%2 == 1 && !merged(trace, trace[i].event.Version)
		}, func(s *step) { s.event.Changes = nil }, "any")
	},
	"a leave is acknowledged early": func(m *simulation, trace []step, _ *RoomState) Kind {
		return m.edit(trace, func(i int) bool { return trace[i].what == "left" }, func(s *step) { s.list.Version-- }, "any")
	},
}

func TestRapid_MutatedRuns(t *testing.T) {
	for name, mutate := range mutations {
		t.Run(name, func(t *testing.T) { findMutation(t, mutate) })
	}
}

// findMutation fails unless the check finds the mutation in each run that has a place for it, and some have.
func findMutation(t *testing.T, mutate func(m *simulation, trace []step, final *RoomState) Kind) {
	tried := 0
	for rounds := 0; tried == 0 && rounds < 100; rounds++ {
		rapid.Check(t, func(t *rapid.T) {
			m := newSimulation(t, true)
			m.run()
			trace, final := slices.Clone(m.trace), m.final()
			kind := mutate(m, trace, &final)
			if kind == "" {
				return
			}
			tried++
			v := m.prove(trace, final)
			if c := v.Counts(); v.Total() == 0 || kind != "any" && *c.of(kind) == 0 {
				t.Fatalf("found %+v in\n%v\nfinal %v\n%q", c, trace, final, v.Descriptions())
			}
		})
	}
	if tried == 0 {
		t.Error("no run had a place for it")
	}
}

// Two nodes write the same version after a random run. The join that was overwritten is
// lost.
func TestRapid_LostUpdates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newSimulation(t, true)
		m.run()
		if !m.race() {
			return
		}
		m.deliverAll()
		if v := m.prove(m.trace, m.final()); v.Counts().Lost != 1 || v.Counts().Phantom != 0 {
			t.Fatalf("found %+v in\n%v\nfinal %v\n%q", v.Counts(), m.trace, m.final(), v.Descriptions())
		}
	})
}

func (m *simulation) index(n int) int { return rapid.IntRange(0, n-1).Draw(m.t, "index") }

// edit changes one of the steps that fit.
func (m *simulation) edit(trace []step, fits func(i int) bool, change func(*step), kind Kind) Kind {
	var at []int
	for i := range trace {
		if fits(i) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return ""
	}
	change(&trace[at[m.index(len(at))]])
	return kind
}
