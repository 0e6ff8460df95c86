package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// played returns two nodes with a member each in a room with these settings, which the second node has only heard of, and a function by
// which Redis forgets it.
func played(t *testing.T, settings room.Settings) (first, second *Coordinator, forget func()) {
	t.Helper()
	mini, rdb := redistest.Mini(t)
	first = newCoordinator(t, redistest.MiniClient(t, mini), Options{})
	second = newCoordinator(t, redistest.MiniClient(t, mini), Options{})
	for _, c := range []*Coordinator{first, second} {
		stop, err := c.Watch(t.Context(), "42", func(*room.Event) {})
		redistest.OK(t, err)
		t.Cleanup(stop)
	}
	mustDo(t, first, "42", room.Join{User: "a", Session: "s"})
	awaitHeard(t, second, mustDo(t, second, "42", room.Join{User: "b", Session: "s"}).Version) // no snapshot comes later
	mustDo(t, first, "42", room.Configure{Settings: settings})
	last := mustDo(t, first, "42", room.Kick{User: "rude", Until: room.Forever}).Version
	awaitHeard(t, first, last) // an event that comes later is nobody's snapshot
	awaitHeard(t, second, last)
	return first, second, func() { redistest.OK(t, rdb.FlushAll(t.Context()).Err()) }
}

// awaitHeard waits until those who watch the room by a node know the version.
func awaitHeard(t *testing.T, c *Coordinator, version uint64) {
	t.Helper()
	awaitUntil(t, patience, func() string {
		if c.feeds.At("42").Version == version {
			return ""
		}
		return fmt.Sprintf("version %d is not known", version)
	})
}

var forTwo = room.Settings{Capacity: 2, Data: room.DataAdmins, Labels: `{"mode":"x"}`, Host: room.HostLongest}

// Whatever comes first, by a node that knows the room, the room has what it had.
func TestForgotten_ComesBack(t *testing.T) {
	again := func(user string) room.Join { return room.Join{User: user, Session: "s", Mode: room.JoinAgain} }
	for name, first := range map[string]func(t *testing.T, first, second *Coordinator){
		"a member of the node that configured it":    func(t *testing.T, first, _ *Coordinator) { mustDo(t, first, "42", again("a")) },
		"a member of the node that only heard of it": func(t *testing.T, _, second *Coordinator) { mustDo(t, second, "42", again("b")) },
		"a newcomer": func(t *testing.T, first, _ *Coordinator) {
			expectRefused(t, "a third", first, "42", room.Join{User: "c", Session: "s"}, room.ErrFull)
		},
		"a newcomer by the node that only heard of it": func(t *testing.T, _, second *Coordinator) {
			expectRefused(t, "a third", second, "42", room.Join{User: "c", Session: "s"}, room.ErrFull)
		},
		"what changes nothing": func(t *testing.T, _, second *Coordinator) { mustDo(t, second, "42", room.Unban{User: "somebody else"}) },
		"a read": func(t *testing.T, first, second *Coordinator) {
			shown := make(chan room.Snapshot, 4)
			for _, c := range []*Coordinator{first, second} {
				stop, err := c.Watch(t.Context(), "42", func(e *room.Event) { shown <- *e.Snapshot })
				redistest.OK(t, err)
				t.Cleanup(stop)
			}
			now := mustRead(t, second, "42")
			for _, s := range []room.Snapshot{now, redistest.Receive(t, shown, "a snapshot"), redistest.Receive(t, shown, "another")} {
				redistest.ErrorIf(t, s.Count() != 2, "%v are shown", s.Users())
			}
		},
		"more are moved there than it has seats": func(t *testing.T, first, _ *Coordinator) {
			for _, user := range []string{"x", "y", "z"} {
				mustDo(t, first, "43", room.Join{User: user, Session: "s"})
			}
			if _, _, err := first.Move(soon(t), "43", "42", "r", "x", "y", "z"); !errors.Is(err, room.ErrFull) {
				t.Errorf("three are moved: %v", err)
			}
			mustDo(t, first, "42", again("a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			node, second, forget := played(t, forTwo)
			before := mustRead(t, node, "42")
			forget()
			first(t, node, second)
			now := mustRead(t, second, "42")
			if now.Epoch == before.Epoch || now.Settings != before.Settings || !slices.Equal(now.Users(), before.Users()) || now.Host() != "a" {
				t.Errorf("it has %+v with %v and the host %q, and had %+v with %v", now.Settings, now.Users(), now.Host(), before.Settings, before.Users())
			}
			for i, c := range []*Coordinator{node, second} {
				expectRefused(t, "a third", c, "42", room.Join{User: "c", Session: "s"}, room.ErrFull)
				r := mustDo(t, c, "42", room.Keep{User: string(rune('a' + i)), Session: "s"})
				redistest.ErrorIf(t, r.Node == "" || r.Seat != i, "a member is on seat %d", r.Seat)
			}
			redistest.ErrorIs(t, "the ban is over", now.MayWatch("42", "rude", node.Now()), room.ErrBanned)
		})
	}
}

// Who only watches a room knows it, too.
func TestForgotten_Watched(t *testing.T) {
	first, _, forget := played(t, forTwo)
	third := newCoordinator(t, first.store.Client, Options{})
	stop, err := third.Watch(t.Context(), "42", func(*room.Event) {})
	redistest.OK(t, err)
	defer stop()
	_, err = third.Read(t.Context(), "42")
	redistest.OK(t, err)
	forget()
	expectRefused(t, "a third", third, "42", room.Join{User: "new", Session: "s"}, room.ErrFull)
	if now, err := first.Read(t.Context(), "42"); err != nil || now.Count() != 2 {
		t.Errorf("%v are there, %v", now.Users(), err)
	}
}

// Who watches a room of which no event has come yet hears by a snapshot that another epoch has begun.
func TestForgotten_Snapshot(t *testing.T) {
	first, _, forget := played(t, forTwo)
	third := newCoordinator(t, first.store.Client, Options{})
	heard := make(chan *room.Event, 4)
	stop, err := third.Watch(t.Context(), "42", func(e *room.Event) { heard <- e })
	redistest.OK(t, err)
	defer stop()
	_, err = third.Read(t.Context(), "42")
	redistest.OK(t, err)
	forget()
	mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
	if e := redistest.Receive(t, heard, "an event"); e.Snapshot == nil {
		t.Errorf("a new epoch began by changes from %d to %d", e.From, e.Version)
	}
}

// Somebody new is let in by a node that does not know the room: what is free of it comes back at once, and who finds no seat does not.
func TestForgotten_Newcomer(t *testing.T) {
	first, second, forget := played(t, forTwo)
	third := newCoordinator(t, first.store.Client, Options{})
	forget()
	mustDo(t, third, "42", room.Join{User: "new", Session: "s"})
	awaitUntil(t, patience, func() string {
		now, err := third.Read(t.Context(), "42")
		if users := now.Users(); err != nil || now.Settings != forTwo || len(users) != 2 || users[0].User != "new" || users[1].User != "b" || now.Host() != "b" {
			return fmt.Sprintf("it has %+v, %v and the host %q, %v", now.Settings, users, now.Host(), err)
		}
		return ""
	})
	expectRefused(t, "the last member", first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain}, room.ErrFull)
	mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain})
}

// Redis comes back from an old copy. The first action by a node that knows better makes the room what it was.
func TestForgotten_OldCopy(t *testing.T) {
	server := redistest.Start(t)
	c := newCoordinator(t, server.Client(), patient(Options{}))
	stop, err := c.Watch(t.Context(), "42", func(*room.Event) {})
	redistest.OK(t, err)
	defer stop()
	for _, user := range []string{"gone", "b"} {
		mustDo(t, c, "42", room.Join{User: user, Session: "s"})
	}
	mustDo(t, c, "42", room.Configure{Settings: room.Settings{Capacity: 3, Host: room.HostLongest}})
	save(t, server)
	mustDo(t, c, "42", room.Leave{User: "gone", Session: "s"})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	before := mustDo(t, c, "42", room.Configure{Settings: forTwo})
	restartOld(server)
	expectRefused(t, "a third", c, "42", room.Join{User: "new", Session: "s"}, room.ErrFull)
	now := mustRead(t, c, "42")
	if now.Epoch == before.Epoch || now.Settings != forTwo || !slices.Equal(now.Users(), before.Users()) || now.Host() != "b" {
		t.Errorf("it has %+v with %v and the host %q, and had %v", now.Settings, now.Users(), now.Host(), before.Users())
	}
}

// Somebody has brought back a member of a node that lives, and for whom no session answers there. The node finds out.
func TestForgotten_Unanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		owner := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		owner.AnswerFor(func(id, _ string) bool { return id != "42" })
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		mustDo(t, owner, "1", room.Join{User: "b", Session: "s"})
		mustDo(t, other, "1", room.Join{User: "c", Session: "s"})
		redistest.OK(t, rdb.HSet(t.Context(), "Room:42:Users", "b", `{"seat":1,"session":"s","node":"`+owner.Node()+`","at":1}`).Err())
		redistest.OK(t, rdb.HSet(t.Context(), "Room:42:Meta", "epoch", "lost", "version", "9").Err())
		if r := mustDo(t, other, "42", room.Join{User: "c", Session: "s"}); r.Count() != 2 {
			t.Fatalf("%v are there", r.Users())
		}
		time.Sleep(2 * time.Minute)
		now, err := other.Read(t.Context(), "42")
		redistest.ErrorIf(t, err != nil || now.Count() != 1, "%v are there, %v", now.Users(), err)
	})
}

// A room that everybody has left, or that was closed, and that Redis then forgets, is a new one.
func TestForgotten_Deliberately(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, first, second *Coordinator){
		"left": func(t *testing.T, first, second *Coordinator) {
			mustDo(t, first, "42", room.Leave{User: "a", Session: "s"})
			mustDo(t, second, "42", room.Leave{User: "b", Session: "s"})
		},
		"closed": func(t *testing.T, first, _ *Coordinator) { mustDo(t, first, "42", room.Close{}) },
	} {
		t.Run(name, func(t *testing.T) {
			first, second, forget := played(t, forTwo)
			end(t, first, second)
			last := mustRead(t, first, "42")
			awaitHeard(t, second, last.Version)
			forget()
			r := mustDo(t, second, "42", room.Join{User: "new", Session: "s"})
			redistest.ErrorIf(t, !r.Settings.Default, "it has %+v", r.Settings)
		})
	}
}

// A member of a node that is dead comes back with the room, and leaves as the others of that node do.
func TestForgotten_DeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, forget := played(t, forTwo)
		die(second)
		forget()
		if r := mustDo(t, first, "42", room.Unban{User: "x"}); r.Count() != 2 {
			t.Fatalf("%v are there", r.Users())
		}
		mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain}) // under the node's new name
		time.Sleep(2*DefaultNodeTTL + DefaultGrace)
		now, err := first.Read(t.Context(), "42")
		redistest.ErrorIf(t, err != nil || now.Count() != 1, "%v are there, %v", now.Users(), err)
	})
}
