package membership

import (
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// changesAt is the event of a version at which that was done.
func changesAt(epoch string, version uint64, updates ...room.Update) *room.Event {
	return (&room.Commit{Position: room.Position{Epoch: epoch, Version: version}, Node: "writer",
		Updates: updates}).Event("42")
}

// listAt is the snapshot of a version. The members of nodes but those in alive may have
// been removed as a dead node's.
func listAt(epoch string, version uint64, members map[string]room.Member, alive ...string) *room.Event {
	return room.SnapshotEvent(room.NewRoom("42", room.Position{Epoch: epoch, Version: version}, members), alive, nil)
}

func TestKnown_Events(t *testing.T) {
	joins := func(session string) room.Update { return room.Update{Type: room.KindJoin, User: "a", Session: session} }
	replaces := func(old, session string) room.Update {
		return room.Update{Type: "replace", User: "a", Session: session, Old: old}
	}
	leaves := room.Update{Type: room.KindLeave, User: "a", Reason: room.ReasonNode}
	kicked := room.Update{Type: room.KindLeave, User: "a", Reason: "kicked"}
	expires := func(old string) room.Update {
		return room.Update{Type: room.KindLeave, User: "a", Reason: room.ReasonTimeout, Old: old}
	}
	other := room.Update{Type: room.KindJoin, User: "b", Session: "x"}
	seats := func(session string) map[string]room.Member {
		return map[string]room.Member{"a": {Session: session, Node: "n2"}}
	}
	missing := func(e *room.Event, missed ...*room.Event) *room.Event {
		e.Missed = missed
		return e
	}
	in := known{user: "a", session: "s", node: "n1", epoch: "e", version: 5}
	out := in
	out.out = true
	back := out
	back.joined(room.Result{Node: "n1", Snapshot: room.Snapshot{Epoch: "e", Version: 9}})
	remembers := room.NewRoom("42", room.Position{Epoch: "e", Version: 8}, seats("s"))
	_, err := remembers.Apply(room.Kick{User: "a"}, room.Rules{}, room.Origin{})
	redistest.OK(t, err)
	remembers.Commit("e", "")
	for _, tt := range []struct {
		name string
		at   known
		told *room.Event
		want Input
	}{
		// Events.
		{"of another user", in, changesAt("e", 6, other), nothing},
		{"a take-over", in, changesAt("e", 6, replaces("s", "new")), TakenOver},
		{"a take-over from another node's session", in, changesAt("e", 6, replaces("x", "new")), TakenOver},
		{"a take-over before the own join", in, changesAt("e", 4, replaces("s", "new")), nothing},
		{"the own join", in, changesAt("e", 5, joins("s")), nothing},
		{"of an earlier epoch", in, changesAt("old", 900, replaces("s", "new")), nothing},
		{"the own session, again", in, changesAt("e", 6, replaces("s", "s")), Seen},
		{"the own session is detached", in, changesAt("e", 6, replaces("s", "~s")), Seen},
		{"taken over by one that is detached", in, changesAt("e", 6, replaces("x", "~new")), TakenOver},
		{"removed", in, changesAt("e", 6, leaves), Removed},
		{"away for the room's grace, as others believed", in, changesAt("e", 6, expires("~5~s")), Removed},
		{"another session was away for the grace", in, changesAt("e", 6, expires("~5~x")), Ended},
		{"kicked", in, changesAt("e", 6, kicked), Ended},
		{"kicked before the own join", in, changesAt("e", 4, kicked), nothing},
		{"kicked, and the user came with another session", in, changesAt("e", 6, kicked, joins("new")), TakenOver},
		{"ready", in, changesAt("e", 6, room.Update{Type: "member", User: "a"}), nothing},
		{"on another seat", in, changesAt("e", 6, room.Update{Type: "seat", User: "a", Seat: 3}), nothing},
		{"dealt to", in, changesAt("e", 6, room.Update{Type: "private", User: "a"}), nothing},
		{"a message", in, changesAt("e", 6, room.Update{Type: room.KindMessage, User: "a"}), nothing},
		{"removed, and back in the same commit", in, changesAt("e", 6, leaves, joins("s")), Seen},
		{"removed, and the user came with another session", in, changesAt("e", 6, leaves, joins("new")), TakenOver},
		{"a take-over, and a leave, in one commit", in, changesAt("e", 6, replaces("s", "new"), leaves), TakenOver},
		{"a room that began anew, with others", in, changesAt("new", 1, other), Removed},
		{"a room that began anew, with this session", in, changesAt("new", 1, joins("s")), Seen},
		{"a room that began anew, with another session", in, changesAt("new", 1, joins("new")), TakenOver},

		// Events, once the place is lost.
		{"out: another session comes", out, changesAt("e", 6, joins("new")), TakenOver},
		{"out: it is back", out, changesAt("e", 6, joins("s")), Seen},
		{"brought back: another session had come", back, changesAt("e", 7, joins("new")), TakenBefore},
		{"brought back: and left", back, changesAt("e", 8, leaves), nothing},
		{"brought back: what was known before", back, changesAt("e", 4, replaces("s", "new")), nothing},
		{"brought back: the own join", back, changesAt("e", 9, joins("s")), nothing},
		{"brought back: a take-over later", back, changesAt("e", 10, replaces("s", "new")), TakenOver},

		// Snapshots of the same epoch.
		{"still there", in, listAt("e", 9, seats("s"), "n1"), Seen},
		{"there with another session", in, listAt("e", 9, seats("new"), "n1"), TakenOver},
		{"there with another session, detached", in, listAt("e", 9, seats("~new"), "n1"), TakenOver},
		{"missing, and nobody was removed", in, listAt("e", 9, nil, "n1"), Ended},
		{"missing, and was kicked, as was heard of", in,
			missing(listAt("e", 9, nil), changesAt("e", 7, kicked)), Ended},
		{"missing, and was kicked, as the room remembers", in, room.SnapshotEvent(remembers, nil, nil), Ended},
		{"missing, and the node may have been removed", in, listAt("e", 9, nil, "n2"), Removed},
		{"missing, and a take-over was heard of", in,
			missing(listAt("e", 9, nil), changesAt("e", 7, replaces("s", "new"))), TakenOver},
		{"missing, and a take-over from before was heard of", in,
			missing(listAt("e", 9, nil), changesAt("e", 4, replaces("s", "new"))), Removed},
		{"out, and still missing", out, listAt("e", 9, nil, "n1"), Removed},
		{"out, and there with another session", out, listAt("e", 9, seats("new"), "n1"), TakenOver},

		// An older one than the own join, and other epochs.
		{"older, and there", in, listAt("e", 4, seats("s")), nothing},
		{"older, and missing", in, listAt("e", 4, nil, "n1"), Contradicted},
		{"older, and there with another session", in, listAt("e", 4, seats("x"), "n1"), Contradicted},
		{"older, once the place is lost", out, listAt("e", 4, nil, "n1"), nothing},
		{"lost with the room", in, listAt("", 0, nil, "n1"), Removed},
		{"missing in a new epoch", in, listAt("new", 3, nil, "n1"), Removed},
		{"there in a new epoch", in, listAt("new", 3, seats("s"), "n1"), Seen},
		{"there in a new epoch with another session", in, listAt("new", 3, seats("new"), "n1"), TakenOver},

		{"a new name", in, &room.Event{Rejoin: true, Epoch: "e", Version: 5}, Questioned},
	} {
		after := tt.at
		in := after.apply(tt.told)
		if in != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, in, tt.want)
		}
		want := tt.at
		if in == Seen || in == Removed || in == Ended {
			want.epoch, want.version, want.out, want.outSince = tt.told.Epoch, tt.told.Version, in != Seen, 0
			want.node = after.node
		}
		if after != want {
			t.Errorf("%s: then it knows %+v", tt.name, after)
		}
	}
}
