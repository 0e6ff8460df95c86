package coordinator

import (
	"errors"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A key that another program has written is named, whichever it is: trying again does not help.
func TestForeign_EachKey(t *testing.T) {
	t.Parallel()
	join := func(t *testing.T, c *Coordinator) error {
		_, err := c.Do(soon(t), "42", room.Join{User: "a", Session: "s"})
		return err
	}
	for _, test := range []struct {
		key string
		do  func(t *testing.T, c *Coordinator) error
	}{
		{"LockRoom:42:Queue", join},
		{"Room:42:Users", join},
		{"Room:42:Meta", join},
		{"Timers:due", func(t *testing.T, c *Coordinator) error {
			_, err := c.Do(soon(t), "42", room.SetTimer{Name: "x", In: time.Hour.Milliseconds()})
			return err
		}},
		{"Lobby:State", func(t *testing.T, c *Coordinator) error { _, err := c.Lobby(soon(t)); return err }},
		{"Nodes", func(t *testing.T, c *Coordinator) error { _, err := c.Nodes(soon(t)); return err }},
	} {
		t.Run(test.key, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			c := newCoordinator(t, server.Client(), Options{})
			redistest.OK(t, server.Client().Del(t.Context(), test.key).Err())
			redistest.OK(t, server.Client().SAdd(t.Context(), test.key, "another").Err())
			if err := test.do(t, c); !errors.Is(err, room.ErrForeign) || !strings.Contains(err.Error(), test.key+" is a set and not a ") {
				t.Errorf("%v", err)
			}
			shared := !strings.Contains(test.key, "42")
			if err := c.Check(soon(t)); errors.Is(err, room.ErrForeign) != shared {
				t.Errorf("before it begins a node says %v", err)
			}
		})
	}
}
