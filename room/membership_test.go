package room

import (
	"errors"
	"testing"
)

// A session is kept only where it still is the active one of its user.
func TestKeep(t *testing.T) {
	r := NewRoom("42", Position{"e", 1, ""}, map[string]Member{
		"a": {Seat: 3, Session: "s", Node: "old name"}, "b": {Seat: 1, Session: "new"}, "c": {Seat: 2, Session: detached + "s"},
	})
	for user, want := range map[string]struct {
		seat int
		err  error
	}{"a": {3, nil}, "b": {0, ErrDuplicate}, "c": {2, nil}, "d": {0, ErrNotMember}} {
		seat, err := r.Apply(Keep{User: user, Session: "s"}, Rules{}, Origin{Node: "new name"})
		if seat != want.seat || !errors.Is(err, want.err) {
			t.Errorf("%s: seat %d, %v", user, seat, err)
		}
		if m, _ := r.Member(user); err == nil && (m.Session != "s" || m.Node != "new name") {
			t.Errorf("%s is %+v", user, m)
		}
	}
	if got := describeUsers(r.Snapshot().Users()); got != "b@1 c@2 a@3" {
		t.Errorf("the room holds %s", got)
	}
	if told := changesOf(r); len(told) != 1 || told[0].Type != kindBack || told[0].User != "c" {
		t.Errorf("players are told %v", told)
	}
}

// A session that comes back unasked does not push out a newer one, nor one that may
// come back.
func TestJoinAgain(t *testing.T) {
	r := NewRoom("42", Position{"e", 1, ""}, map[string]Member{"a": {Seat: 0, Session: "new"}, "b": {Seat: 1, Session: detached + "new"}, "d": {Seat: 2, Session: detached + "mine"}})
	for user, want := range map[string]error{"a": ErrDuplicate, "b": ErrDuplicate, "c": nil, "d": nil} {
		if _, err := r.Apply(Join{User: user, Session: "mine", Mode: JoinAgain}, Rules{}, Origin{}); !errors.Is(err, want) {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// A user who was moved is reserved again and kicked: the session that was moved hears of its move, also
// where a snapshot stands for all of that. Where it was moved before what the session knows, it hears of the kick.
func TestLeaveOf_FirstBehindStanding(t *testing.T) {
	r := NewRoom("42", Position{"e", 1, ""}, map[string]Member{"a": {Seat: 0, Session: "s"}})
	var events []*Event
	for _, a := range []Action{Release{Users: []string{"a"}, Target: "43"}, Reserve{Session: "r", Users: []string{"a"}}, Kick{User: "a", Text: "loud"}} {
		if _, err := r.Apply(a, Rules{}, Origin{Node: "n"}); err != nil {
			t.Fatal(err)
		}
		events = append(events, commitPending(r, "e", "n"))
	}
	all := SnapshotEvent(r, nil, events)
	for known, want := range map[uint64]Gone{
		1: {Version: 2, Reason: ReasonMoved, Target: "43"},
		3: {Version: 4, Reason: reasonKicked, Text: "loud"},
	} {
		if got, found := all.LeaveOf("a", "e", known); !found || got != want {
			t.Errorf("from version %d on: %+v, %v", known, got, found)
		}
	}
	if got, found := SnapshotEvent(r, nil, nil).LeaveOf("a", "e", 1); !found || got.Reason != reasonKicked {
		t.Errorf("of the room alone: %+v, %v", got, found)
	}
	if _, found := events[0].LeaveOf("b", "e", 1); found {
		t.Error("somebody else has left")
	}
}
