package coordinator

import (
	"errors"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// played returns two nodes with a member each in a room that somebody has configured, and a function by which Redis
// forgets it.
func played(t *testing.T) (first, second *Coordinator, forget func()) {
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
	mustDo(t, second, "42", room.Join{User: "b", Session: "s"})
	mustDo(t, first, "42", room.Configure{Settings: room.Settings{Capacity: 2, Data: room.DataAdmins, Labels: `{"mode":"x"}`}})
	last := mustDo(t, first, "42", room.Kick{User: "rude", Until: room.Forever})
	awaitUntil(t, patience, func() string {
		if second.feeds.At("42").Version == last.Version {
			return ""
		}
		return "the second node has not heard what the first has done"
	})
	return first, second, func() { redistest.OK(t, rdb.FlushAll(t.Context()).Err()) }
}

// Whichever node restores its member first, and whoever comes before, the room has what it had.
func TestForgotten_ComesBack(t *testing.T) {
	for name, restore := range map[string]func(t *testing.T, first, second *Coordinator){
		"the node that configured it": func(t *testing.T, first, second *Coordinator) {
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
			mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain})
		},
		"the node that only heard of it": func(t *testing.T, first, second *Coordinator) {
			mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain})
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
		},
		"a join that is refused comes before": func(t *testing.T, first, second *Coordinator) {
			expectRefused(t, "a banned user", second, "42", room.Join{User: "rude", Session: "s"}, room.ErrBanned)
			mustDo(t, second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain})
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
		},
		"somebody new sits down by a third node": func(t *testing.T, first, second *Coordinator) {
			third := newCoordinator(t, first.store.Client, Options{})
			mustDo(t, third, "42", room.Join{User: "new", Session: "s"})
			mustDo(t, first, "42", room.Join{User: "a", Session: "s", Mode: room.JoinAgain})
			expectRefused(t, "the last member", second, "42", room.Join{User: "b", Session: "s", Mode: room.JoinAgain}, room.ErrFull)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second, forget := played(t)
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
			first, second, forget := played(t)
			end(t, first, second)
			last, err := first.Read(t.Context(), "42")
			redistest.OK(t, err)
			awaitUntil(t, patience, func() string {
				if second.feeds.At("42").Version == last.Version {
					return ""
				}
				return "the second node has not heard the end"
			})
			forget()
			if r := mustDo(t, second, "42", room.Join{User: "new", Session: "s"}); !r.Settings.Default {
				t.Errorf("it has %+v", r.Settings)
			}
		})
	}
}
