package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// present returns who is in a room, by seat, and fails the test if somebody is away.
func (s *testNode) present(t *testing.T, id string) (users string) {
	t.Helper()
	now, err := s.rooms.Read(t.Context(), id)
	redistest.OK(t, err)
	for _, o := range now.Users() {
		if o.Away {
			t.Errorf("%s is away in room %s", o.User, id)
		}
		users += o.User
	}
	return users
}

// Members of two full rooms change places, on different nodes: each goes along with its session, and nobody loses the seat.
func TestExchange_SessionsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := room.Rules{Seating: room.Capacity(2)}
		first, second, a, b := twoNodes(t, rules, Options{}) // in room 42
		x, y := first.connect(t, "x"), second.connect(t, "y")
		for _, v := range []*testClient{x, y} {
			v.send(`{"id":1,"room":"T","action":"join"}`)
			synctest.Wait()
		}
		for _, v := range []*testClient{a, b, x, y} {
			v.drain()
		}
		left, joined, err := first.Exchange(t.Context(), "42", "T", []string{"a"}, []string{"y"})
		redistest.OK(t, err)
		if left.Count() != 2 || joined.Count() != 2 {
			t.Errorf("%d and %d members", left.Count(), joined.Count())
		}
		a.expect(lostMoved)
		a.expectIn(`"user":"a"`, `"user":"x"`)
		y.expect(`{"event":"lost","room":"T","reason":"moved","to":"42"}`)
		b.expect(eventOf(3, `{"type":"leave","user":"a","seat":1,"reason":"moved","to":"T"}`, `{"type":"join","user":"y","seat":1,"away":true}`))
		time.Sleep(time.Minute)
		redistest.Equal(t, "room 42 has", first.present(t, "42"), "by")
		redistest.Equal(t, "room T has", first.present(t, "T"), "xa")
		y.drain()
		y.ask(`"say","text":"hi"`, fmt.Sprintf(`"version":%d,"count":2`, 5))
	})
}

// On a Cluster an exchange is undone when the second room cannot be had: who has left gets the seat back, for the grace.
func TestExchange_UndoneSeatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{Grace: 5 * time.Second})
		s.hook.exchange = func(ctx context.Context, to, session string, back []string) error {
			_, err := s.rooms.Do(ctx, to, room.Reserve{Session: session, Users: back})
			redistest.OK(t, err)
			return fmt.Errorf("%w, %w", room.ErrBusy, coordinator.ErrUndone)
		}
		if _, _, err := s.Exchange(t.Context(), "43", "T", []string{"x"}, []string{"z"}); !errors.Is(err, room.ErrBusy) {
			t.Fatal(err)
		}
		s.expectMembers(t, "T", "z")
		time.Sleep(4 * time.Second)
		s.expectMembers(t, "T", "z")
		time.Sleep(2 * time.Second)
		s.expectMembers(t, "T", "")
	})
}

// A refused exchange has written nothing, and so nobody has anything to give up.
func TestExchange_RefusedKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{Grace: 5 * time.Second})
		if _, _, err := s.Exchange(t.Context(), "43", "T", []string{"x"}, []string{"z"}); !errors.Is(err, room.ErrNotMember) {
			t.Fatal(err)
		}
		if n := s.disconnectTimers.count(); n > 0 {
			t.Errorf("%d graces run", n)
		}
	})
}

// A rematch: a backend takes all members to a room that there is not yet. They sit down together, each goes along with
// its session, and whoever watched the old room sees it empty.
func TestMove_Rematch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{Seating: room.Capacity(2)}, Options{})
		now, err := first.rooms.Read(t.Context(), "42")
		redistest.OK(t, err)
		var all []string
		for _, o := range now.Users() {
			all = append(all, o.User)
		}
		slices.Reverse(all) // who asks says in which order they sit down
		_, joined, err := second.Move(t.Context(), "42", "T", all...)
		redistest.OK(t, err)
		redistest.Equal(t, "the version of the new room", joined.Version, 1)
		for _, v := range []*testClient{a, b} {
			v.expect(lostMoved)
			v.expectIn(`"user":"a"`, `"user":"b"`)
		}
		time.Sleep(time.Minute)
		redistest.Equal(t, "the new room has", first.present(t, "T"), strings.Join(all, ""))
		redistest.Equal(t, "the old room has", first.present(t, "42"), "")
	})
}
