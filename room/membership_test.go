package room

import (
	"errors"
	"testing"
)

// changesAt is the event of a version at which that was done.
func changesAt(epoch string, version uint64, updates ...Update) *Event {
	return (&Commit{Position{epoch, version, ""}, "", "writer", updates}).Event("42")
}

// listAt is the snapshot of a version. The members of nodes but those in alive may have
// been removed as a dead node's.
func listAt(epoch string, version uint64, members map[string]Member, alive ...string) *Event {
	return SnapshotEvent(NewRoom("42", Position{epoch, version, ""}, members), alive, nil)
}

func TestMembership(t *testing.T) {
	joins := func(session string) Update { return Update{Type: KindJoin, User: "a", Session: session} }
	replaces := func(old, session string) Update {
		return Update{Type: kindReplace, User: "a", Session: session, Old: old}
	}
	leaves := Update{Type: KindLeave, User: "a", Reason: reasonNode}
	kicked := Update{Type: KindLeave, User: "a", Reason: reasonKicked}
	other := Update{Type: KindJoin, User: "b", Session: "x"}
	seats := func(session string) map[string]Member { return map[string]Member{"a": {Session: session, Node: "n2"}} }
	missing := func(e *Event, missed ...*Event) *Event {
		e.missed = missed
		return e
	}
	in := Membership{User: "a", Session: "s", Node: "n1", Epoch: "e", Version: 5}
	out := in
	out.Out = true
	back := out.Joined(Result{Node: "n1", Snapshot: Snapshot{Epoch: "e", Version: 9}})
	for _, tt := range []struct {
		name string
		at   Membership
		told *Event
		want Outcome
	}{
		// Events.
		{"of another user", in, changesAt("e", 6, other), unchanged},
		{"a take-over", in, changesAt("e", 6, replaces("s", "new")), Replaced},
		{"a take-over from another node's session", in, changesAt("e", 6, replaces("x", "new")), Replaced},
		{"a take-over before the own join", in, changesAt("e", 4, replaces("s", "new")), unchanged},
		{"the own join", in, changesAt("e", 5, joins("s")), unchanged},
		{"of an earlier epoch", in, changesAt("old", 900, replaces("s", "new")), unchanged},
		{"the own session, again", in, changesAt("e", 6, replaces("s", "s")), Active},
		{"the own session is detached", in, changesAt("e", 6, replaces("s", "~s")), Active},
		{"taken over by one that is detached", in, changesAt("e", 6, replaces("x", "~new")), Replaced},
		{"removed", in, changesAt("e", 6, leaves), Removed},
		{"kicked", in, changesAt("e", 6, kicked), Ended},
		{"kicked before the own join", in, changesAt("e", 4, kicked), unchanged},
		{"kicked, and the user came with another session", in, changesAt("e", 6, kicked, joins("new")), Replaced},
		{"ready", in, changesAt("e", 6, Update{Type: kindMember, User: "a"}), unchanged},
		{"on another seat", in, changesAt("e", 6, Update{Type: kindSeat, User: "a", Seat: 3}), unchanged},
		{"dealt to", in, changesAt("e", 6, Update{Type: kindPrivate, User: "a"}), unchanged},
		{"a message", in, changesAt("e", 6, Update{Type: KindMessage, User: "a"}), unchanged},
		{"removed, and back in the same commit", in, changesAt("e", 6, leaves, joins("s")), Active},
		{"removed, and the user came with another session", in, changesAt("e", 6, leaves, joins("new")), Replaced},
		{"a take-over, and a leave, in one commit", in, changesAt("e", 6, replaces("s", "new"), leaves), Replaced},
		{"a room that began anew, with others", in, changesAt("new", 1, other), Removed},
		{"a room that began anew, with this session", in, changesAt("new", 1, joins("s")), Active},
		{"a room that began anew, with another session", in, changesAt("new", 1, joins("new")), Replaced},

		// Events, once the place is lost.
		{"out: another session comes", out, changesAt("e", 6, joins("new")), Replaced},
		{"out: it is back", out, changesAt("e", 6, joins("s")), Active},
		{"brought back: another session had come", back, changesAt("e", 7, joins("new")), Replaced},
		{"brought back: and left", back, changesAt("e", 8, leaves), unchanged},
		{"brought back: what was known before", back, changesAt("e", 4, replaces("s", "new")), unchanged},
		{"brought back: the own join", back, changesAt("e", 9, joins("s")), unchanged},
		{"brought back: a take-over later", back, changesAt("e", 10, replaces("s", "new")), Replaced},

		// Snapshots of the same epoch.
		{"still there", in, listAt("e", 9, seats("s"), "n1"), Active},
		{"there with another session", in, listAt("e", 9, seats("new"), "n1"), Replaced},
		{"there with another session, detached", in, listAt("e", 9, seats("~new"), "n1"), Replaced},
		{"missing, and nobody was removed", in, listAt("e", 9, nil, "n1"), Ended},
		{"missing, and was kicked, as was heard of", in, missing(listAt("e", 9, nil), changesAt("e", 7, kicked)), Ended},
		{"missing, and the node may have been removed", in, listAt("e", 9, nil, "n2"), Removed},
		{"missing, and a take-over was heard of", in, missing(listAt("e", 9, nil), changesAt("e", 7, replaces("s", "new"))), Replaced},
		{"missing, and a take-over from before was heard of", in, missing(listAt("e", 9, nil), changesAt("e", 4, replaces("s", "new"))), Removed},
		{"out, and still missing", out, listAt("e", 9, nil, "n1"), Removed},
		{"out, and there with another session", out, listAt("e", 9, seats("new"), "n1"), Replaced},

		// An older one than the own join, and other epochs.
		{"older, and there", in, listAt("e", 4, seats("s")), unchanged},
		{"older, and missing", in, listAt("e", 4, nil, "n1"), Doubtful},
		{"older, and there with another session", in, listAt("e", 4, seats("x"), "n1"), Doubtful},
		{"older, once the place is lost", out, listAt("e", 4, nil, "n1"), unchanged},
		{"lost with the room", in, listAt("", 0, nil, "n1"), Removed},
		{"missing in a new epoch", in, listAt("new", 3, nil, "n1"), Removed},
		{"there in a new epoch", in, listAt("new", 3, seats("s"), "n1"), Active},
		{"there in a new epoch with another session", in, listAt("new", 3, seats("new"), "n1"), Replaced},

		{"a new name", in, &Event{Rejoin: true, Epoch: "e", Version: 5}, unchanged},
	} {
		outcome, after := tt.at.After(tt.told)
		if outcome != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, outcome, tt.want)
		}
		if moved := outcome == Active || outcome == Removed || outcome == Ended; moved && (after.Epoch != tt.told.Epoch || after.Version != tt.told.Version || after.Out == (outcome == Active)) || !moved && after != tt.at {
			t.Errorf("%s: then it knows %+v", tt.name, after)
		}
	}
}

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
		if got, found := all.LeaveOf(Membership{User: "a", Session: "s", Epoch: "e", Version: known}); !found || got != want {
			t.Errorf("from version %d on: %+v, %v", known, got, found)
		}
	}
	if got, found := SnapshotEvent(r, nil, nil).LeaveOf(Membership{User: "a", Epoch: "e", Version: 1}); !found || got.Reason != reasonKicked {
		t.Errorf("of the room alone: %+v, %v", got, found)
	}
	if _, found := events[0].LeaveOf(Membership{User: "b", Epoch: "e", Version: 1}); found {
		t.Error("somebody else has left")
	}
}
