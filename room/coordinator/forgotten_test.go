package coordinator

import (
	"errors"
	"fmt"
	"testing"

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
	awaitHeard(t, second, mustDo(t, first, "42", room.Kick{User: "rude", Until: room.Forever}).Version)
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

var forTwo = room.Settings{Capacity: 2, Data: room.DataAdmins, Labels: `{"mode":"x"}`}

// Whichever node restores its member first, and whoever comes before, the room has what it had.
func TestForgotten_ComesBack(t *testing.T) {
	for name, restore := range map[string]func(t *testing.T, first, second *Coordinator){
		"the node that configured it": func(t *testing.T, first, second *Coordinator) {
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
			mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain})
		},
		"the node that only heard of it": func(t *testing.T, first, second *Coordinator) {
			if r := mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain}); r.Settings != forTwo {
				t.Errorf("it begins with %+v", r.Settings)
			}
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
		},
		"a join that is refused comes before": func(t *testing.T, first, second *Coordinator) {
			expectRefused(t, "a banned user", second, "42", room.Join{User: "rude", Session: "s"}, room.ErrBanned)
			mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain})
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
		},
		"what changes nothing comes before": func(t *testing.T, first, second *Coordinator) {
			expectRefused(t, "who is not there any more", second, "42", room.Keep{User: "b", Session: "s"}, room.ErrNotMember)
			mustDo(t, second, "42", room.Unban{User: "somebody else"})
			if r := mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain}); r.Version != 1 {
				t.Errorf("it begins at version %d", r.Version)
			}
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
		},
		"it is read before": func(t *testing.T, first, second *Coordinator) {
			for _, c := range []*Coordinator{first, second} {
				heard := make(chan struct{}, 1)
				stop, err := c.Watch(t.Context(), "42", func(e *room.Event) {
					if e.Snapshot != nil {
						heard <- struct{}{}
					}
				})
				redistest.OK(t, err)
				_, err = c.Read(t.Context(), "42")
				redistest.OK(t, err)
				redistest.Receive(t, heard, "a snapshot of nothing")
				stop()
			}
			mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain})
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
		},
		"more are moved there than it has seats": func(t *testing.T, first, second *Coordinator) {
			for _, user := range []string{"x", "y", "z"} {
				mustDo(t, first, "43", room.Join{User: user, Session: "s"})
			}
			if _, _, err := first.Move(soon(t), "43", "42", "r", "x", "y", "z"); !errors.Is(err, room.ErrFull) {
				t.Errorf("three are moved: %v", err)
			}
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
			mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain})
		},
		"somebody new sits down by a node that does not know it": func(t *testing.T, first, second *Coordinator) {
			third := newCoordinator(t, first.store.Client, Options{})
			mustDo(t, third, "42", room.Join{User: "new", Session: "s"})
			awaitUntil(t, patience, func() string {
				if now, err := third.Read(t.Context(), "42"); err != nil || now.Settings != forTwo {
					return fmt.Sprintf("it has %+v, %v", now.Settings, err)
				}
				return ""
			})
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
			expectRefused(t, "the last member", second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain}, room.ErrFull)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second, forget := played(t, forTwo)
			before, err := first.Read(t.Context(), "42")
			redistest.OK(t, err)
			forget()
			restore(t, first, second)
			for _, c := range []*Coordinator{first, second} {
				expectRefused(t, "a third", c, "42", room.Join{User: "c", Session: "s"}, room.ErrFull)
				if _, err := c.Do(t.Context(), "42", room.SetData{User: "a", Session: "s", Data: "1"}); !errors.Is(err, room.ErrForbidden) {
					t.Errorf("a member sets the data of a refereed room: %v", err)
				}
			}
			now, err := second.Read(t.Context(), "42")
			redistest.OK(t, err)
			if now.Epoch == before.Epoch || now.Settings != before.Settings {
				t.Errorf("it has %+v, and had %+v", now.Settings, before.Settings)
			}
			if err := now.MayWatch("42", "rude", first.Now()); !errors.Is(err, room.ErrBanned) {
				t.Errorf("the ban is over: %v", err)
			}
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
	if r := mustDo(t, third, "42", room.Join{User: "new", Session: "s"}); r.Settings != forTwo {
		t.Errorf("it has %+v", r.Settings)
	}
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
			last, err := first.Read(t.Context(), "42")
			redistest.OK(t, err)
			awaitHeard(t, second, last.Version)
			forget()
			if r := mustDo(t, second, "42", room.Join{User: "new", Session: "s"}); !r.Settings.Default {
				t.Errorf("it has %+v", r.Settings)
			}
		})
	}
}
