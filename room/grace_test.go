package room

import (
	"errors"
	"fmt"
	"testing"

	"roomd/lockmgr/redistest"
)

// graceRoom returns a room with that grace, in which a and b sit by node n since the time 1000. Negative: no setting.
func graceRoom(t *testing.T, ms int64) *Room {
	t.Helper()
	r := NewRoom("42", Position{"e", 1, "mark"}, map[string]Member{
		"a": {Seat: 0, Session: "s", Node: "n", At: 1}, "b": {Seat: 1, Session: "t", Node: "n", At: 2},
	})
	s := Settings{Capacity: 4}
	if ms >= 0 {
		s.Grace = NewGrace(ms)
	}
	r.Restore(State{Settings: &s})
	return r
}

// do runs an action at a time and commits it. It returns what changed, and a's membership, also as a follower has it and
// as Redis would restore it.
func doAt(t *testing.T, r *Room, at int64, a Action) string {
	t.Helper()
	other := NewRoom("42", r.Position, copyOf(r))
	other.Restore(r.State())
	if _, err := r.Apply(a, Rules{}, Origin{Node: "n", At: at}); err != nil {
		return err.Error()
	}
	changes := told(changesOf(r))
	if !r.Changed() {
		return changes
	}
	other = follow(t, other, r)
	r.Commit("e", fmt.Sprint("mark", r.Next()))
	if other.Version = r.Version; other.Differences(r) != "" {
		t.Errorf("after %+v a follower differs: %s", a, other.Differences(r))
	}
	return changes
}

// How long a member stays without a connection, by the settings of the room.
func TestGrace(t *testing.T) {
	const day = 24 * 3_600_000
	detach, timeout := Detach{User: "a", Session: "s"}, Leave{User: "a", Session: "s", Reason: ReasonTimeout}
	type step struct {
		at   int64
		do   Action
		want string
	}
	for name, c := range map[string]struct {
		grace int64
		steps []step
	}{
		"none":                        {-1, []step{{1000, detach, "away a0"}, {90 * day, Upkeep{Due: 90 * day}, ""}, {90 * day, timeout, "leave a0 timeout"}}},
		"0":                           {0, []step{{1000, detach, "leave a0 timeout"}}},
		"0, and away was not written": {0, []step{{1000, timeout, "leave a0 timeout"}}},
		"3 days": {3 * day, []step{
			{1000, detach, "away a0"},
			{11_000, timeout, ""}, // the grace of the node
			{11_000, Upkeep{Stray: "n", Grace: 10_000}, "away b1"}, {21_000, Upkeep{Evict: "n", Grace: 10_000}, ""},
			{3*day + 999, Upkeep{Due: 3*day + 999}, ""},
			{3*day + 1000, Upkeep{Due: 3*day + 1000}, "leave a0 timeout"},
			{3*day + 1000, Upkeep{Due: 3*day + 1000}, ""},
			{3*day + 10_999, Upkeep{Due: 3*day + 10_999}, ""},
			{3*day + 11_000, Upkeep{Due: 3*day + 11_000}, "leave b1 timeout"},
		}},
		"back after 2 days": {3 * day, []step{
			{1000, detach, "away a0"}, {2 * day, Join{User: "a", Session: "u"}, "back a0"},
			{4 * day, Upkeep{Due: 4 * day}, ""}, {4 * day, Detach{User: "a", Session: "u"}, "away a0"},
			{7*day - 1, Upkeep{Due: 7*day - 1}, ""}, {7 * day, Upkeep{Due: 7 * day}, "leave a0 timeout"},
		}},
		"away was not written": {3 * day, []step{{1000, timeout, "away a0"}, {2000, timeout, ""},
			{3*day + 1000, timeout, "leave a0 timeout"}}},
		"node has stopped": {3 * day, []step{{1000, Upkeep{Evict: "n", Grace: 1000}, "away a0, away b1"},
			{3*day - 1, Upkeep{Due: 3*day - 1}, ""}, {3 * day, Upkeep{Due: 3 * day}, "leave a0 timeout, leave b1 timeout"}}},
		"shorter than the node's": {1000, []step{{1000, Upkeep{Stray: "n", Grace: 2000}, "away a0, away b1"},
			{2500, Upkeep{Due: 2500}, ""}, {3000, Upkeep{Evict: "n", Grace: 2000}, "leave a0 node, leave b1 node"}}},
		"set while away": {-1, []step{{1000, detach, "away a0"},
			{2000, Configure{Settings: Settings{Grace: NewGrace(3 * day)}}, "settings 0 false"},
			{11_000, timeout, "leave a0 timeout"}, {12_000, Detach{User: "b", Session: "t"}, "away b1"},
			{13_000, Configure{Settings: Settings{Grace: NewGrace(0)}}, "settings 0 false"},
			{14_000, Configure{Settings: Settings{}}, "settings 0 false"},
			{3*day + 11_999, Upkeep{Due: 3*day + 11_999}, ""}, {3*day + 12_000, Upkeep{Due: 3*day + 12_000}, "leave b1 timeout"},
		}},
		"reserved": {1000, []step{
			{1000, Reserve{Session: "r", Users: []string{"c"}}, "join c2 away"},
			{2000, Leave{User: "c", Session: "r", Reason: ReasonTimeout}, ""},
			{5999, Upkeep{Due: 5999}, ""}, {6000, Upkeep{Due: 6000}, "leave c2 timeout"},
			{7000, Reserve{Session: "r", Users: []string{"c"}}, "join c2 away"},
			{8000, Reserve{Session: "q", Users: []string{"c"}}, ""}, // prolongs it
			{12_000, Upkeep{Due: 12_000}, ""}, {12_500, Join{User: "c", Session: "v"}, "back c2"},
			{90 * day, Upkeep{Due: 90 * day}, ""},
		}},
		"reserved by half a move": {3 * day, []step{
			{1000, Reserve{Session: "r", Users: []string{"c", "d"}, Half: true}, "join c2 away, join d3 away"},
			{2000, Reserve{Session: "q", Users: []string{"d"}, Half: true}, ""}, {30_999, Upkeep{Due: 30_999}, ""},
			{30_999, Upkeep{Whole: "r"}, ""}, {32_000, Upkeep{Due: 32_000}, "leave d3 timeout"},
			{3*day + 30_998, Upkeep{Due: 3*day + 30_998}, ""}, {3*day + 30_999, Upkeep{Due: 3*day + 30_999}, "leave c2 timeout"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := graceRoom(t, c.grace)
			for _, s := range c.steps {
				if got := doAt(t, r, s.at, s.do); got != s.want {
					t.Errorf("at %d %T %+v: %q, want %q", s.at, s.do, s.do, got, s.want)
				}
			}
		})
	}
}

// A member with a deadline belongs to no node, and its session is still known by its id.
func TestGrace_Member(t *testing.T) {
	for stored, want := range map[string]struct {
		deadline int64
		id       string
		reserved bool
	}{
		"s": {0, "s", false}, "~s": {0, "s", false}, "~+s": {0, "s", true}, "~7~s": {7, "s", false}, "~+7~s": {7, "s", true},
		"7~s": {0, "7~s", false}, "~7s~s": {0, "7s~s", false}, "~-7~s": {0, "-7~s", false},
	} {
		m := Member{Session: stored}
		if Deadline(stored) != want.deadline || m.SessionID() != want.id || m.Reserved() != want.reserved {
			t.Errorf("%s: %d, %s, %v", stored, Deadline(stored), m.SessionID(), m.Reserved())
		}
	}
	for _, ms := range []int64{-1, -2, 30*86_400_000 + 1} {
		_, err := Check(Configure{Settings: Settings{Grace: NewGrace(ms)}}, Rules{})
		redistest.ErrorIf(t, !errors.Is(err, ErrInvalid), "a grace of %d ms: %v", ms, err)
	}
	r := graceRoom(t, 1000)
	doAt(t, r, 1000, Detach{User: "a", Session: "s"})
	if a, _ := r.Member("a"); a.Node != "" || a.Session != "~2000~s" {
		t.Errorf("away it is %+v", a)
	}
	doAt(t, r, 1500, Keep{User: "a", Session: "s"})
	if a, _ := r.Member("a"); a.Node != "n" || a.Session != "s" {
		t.Errorf("back it is %+v", a)
	}
}
