package room

import "testing"

var knownSettings = Settings{Capacity: 2, Data: DataAdmins}

// known returns a room with a member, and with settings if there are some, and what is known of it.
func known(t *testing.T, settings *Settings) (*Room, Memory) {
	t.Helper()
	r := NewRoom("42", Position{}, make(map[string]Member))
	mustApply(t, r, Join{User: "a", Session: "s"})
	r.Commit("old", "1")
	if settings != nil {
		mustApply(t, r, Configure{Settings: *settings})
		r.Commit("old", "2")
	}
	return r, r.Memory()
}

func mustApply(t *testing.T, r *Room, a Action) {
	t.Helper()
	if _, err := r.Apply(a, Rules{Seating: Capacity(8)}, Origin{Node: "n", At: 1}); err != nil {
		t.Fatal(err)
	}
}

// begun returns a room that somebody has begun who did not know it, or that nobody has.
func begun(t *testing.T, by ...Action) *Room {
	t.Helper()
	r := NewRoom("42", Position{}, make(map[string]Member))
	for _, a := range by {
		mustApply(t, r, a)
		r.Commit("new", "1")
	}
	return r
}

// What was known comes back where Redis has forgotten it, and only there.
func TestMemory_Recall(t *testing.T) {
	open := Settings{Capacity: 8, Default: true}
	other := Settings{Capacity: 3, Labels: `{"mode":"x"}`}
	matched := other
	matched.Default = true
	for name, test := range map[string]struct {
		had  *Settings
		now  *Room
		want Settings
	}{
		"nothing is there":               {&knownSettings, begun(t), knownSettings},
		"nothing is there, and had none": {nil, begun(t), open},
		"others have begun it":           {&knownSettings, begun(t, Join{User: "new", Session: "s"}), knownSettings},
		"others have configured it":      {&knownSettings, begun(t, Configure{Settings: other}), other},
		"others have begun it by match":  {&knownSettings, begun(t, Join{User: "new", Session: "s", Begin: &other}), matched},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := known(t, test.had)
			test.now.Recall(m)
			mustApply(t, test.now, Join{User: "a", Session: "s", Mode: JoinAgain})
			if got, _ := test.now.Settings(); got != test.want {
				t.Errorf("it has %+v instead of %+v", got, test.want)
			}
			test.now.Commit("new", "2")
			if m.Outlives(test.now.Memory()) {
				t.Error("it would come back again")
			}
		})
	}
}

// What a room began with, other nodes learn with the first member's return, whatever their own rules are.
func TestMemory_Begin(t *testing.T) {
	for name, had := range map[string]Settings{"by a join": {Capacity: 1, Default: true}, "by a match": {Capacity: 1, Data: DataAdmins, Default: true}} {
		t.Run(name, func(t *testing.T) {
			r := NewRoom("42", Position{}, make(map[string]Member))
			begin := had
			if _, err := r.Apply(Join{User: "a", Session: "s", Begin: &begin}, Rules{}, Origin{Node: "n", At: 1}); err != nil {
				t.Fatal(err)
			}
			r.Commit("old", "1")
			now := begun(t)
			now.Recall(r.Memory())
			mustApply(t, now, Join{User: "a", Session: "s", Mode: JoinAgain})
			if got, _ := now.Settings(); got != had {
				t.Errorf("it has %+v instead of %+v", got, had)
			}
		})
	}
}

// An action that changes nothing, or fails, does not begin the room.
func TestMemory_Nothing(t *testing.T) {
	_, m := known(t, &knownSettings)
	r := begun(t)
	r.Recall(m)
	mustApply(t, r, Unban{User: "x"})
	if _, err := r.Apply(Keep{User: "a", Session: "s"}, Rules{}, Origin{Node: "n"}); err == nil {
		t.Error("nobody is there")
	}
	if r.Changed() {
		t.Error("there is something to commit")
	}
}

// A memory goes on with the room's events, and does not go back.
func TestMemory_Follows(t *testing.T) {
	r, m := known(t, nil)
	before := m
	follow := func(a Action, id string) *Event {
		mustApply(t, r, a)
		c := r.Pending("old", "n")
		c.CommitID = id
		c.Updates = append([]Update(nil), c.Updates...)
		r.Commit("old", id)
		return c.Event("42")
	}
	configured := follow(Configure{Settings: knownSettings}, "2")
	m = m.After(configured)
	m = m.After(follow(Kick{User: "rude", Until: Forever}, "3"))
	now := begun(t)
	now.Recall(m.Seen(before))
	mustApply(t, now, Join{User: "a", Session: "s", Mode: JoinAgain})
	if got, _ := now.Settings(); got != knownSettings || now.Bans()["rude"] != Forever {
		t.Errorf("it has %+v, and bans %v", got, now.Bans())
	}
	if m = m.Seen(begun(t).Memory()); !m.Outlives(Memory{}) {
		t.Error("it is forgotten because Redis has forgotten it")
	}
	if m = m.After(follow(Leave{User: "a", Session: "s"}, "4")); m.Outlives(Memory{}) {
		t.Error("a room that everybody has left would come back")
	}
	if nothing := (Memory{}).After(configured); nothing.Version != 0 {
		t.Error("who knew nothing knows a part")
	}
}
