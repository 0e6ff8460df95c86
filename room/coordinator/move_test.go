package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// describeRoom returns who is in a room, with what is reserved in brackets.
func describeRoom(t *testing.T, c *Coordinator, id string) string {
	t.Helper()
	snapshot := mustRead(t, c, id)
	text := fmt.Sprintf("%d:", snapshot.Version)
	for _, o := range snapshot.Users() {
		if o.Away {
			text += fmt.Sprintf(" (%s)@%d", o.User, o.Seat)
		} else {
			text += fmt.Sprintf(" %s@%d", o.User, o.Seat)
		}
	}
	return text
}

// Users are moved together, or none is.
func TestMove(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		c := newCoordinator(t, client(), Options{Journal: 10, Rules: room.Rules{Seating: room.Capacity(3)}})
		other := newCoordinator(t, client(), Options{Rules: room.Rules{Seating: room.Capacity(3)}})
		for _, user := range []string{"a", "b", "c"} {
			mustDo(t, other, "A", room.Join{User: user, Session: "s"})
		}
		mustDo(t, c, "B", room.Join{User: "x", Session: "s"})
		mustDo(t, c, "B", room.Join{User: "y", Session: "s"})
		for _, refused := range []struct {
			from, to string
			users    []string
			want     error
			text     string
		}{
			{"A", "A", []string{"a"}, room.ErrInvalid, "to is the room itself"},
			{"A", "B!", []string{"a"}, room.ErrInvalid, "to may hold only A-Z a-z 0-9 . _ -, not '!'"},
			{"A", "B", []string{"a", "a"}, room.ErrInvalid, "users names a twice"},
			{"A", "B", nil, room.ErrInvalid, "users must name 1 to 64 users, not 0"},
			{"A", "B", []string{"a", "b"}, room.ErrFull, "room B has 1 of 3 seats free, and not 2"},
			{"A", "B", []string{"a", "x"}, room.ErrNotMember, "x is not in room A"},
			{"B", "A", []string{"x"}, room.ErrFull, "room A has 0 of 3 seats free, and not 1"},
		} {
			if _, _, err := c.Move(t.Context(), refused.from, refused.to, "r", refused.users...); !errors.Is(err, refused.want) || err.Error() != refused.text {
				t.Errorf("%v: %v", refused, err)
			}
		}
		if got := describeRoom(t, c, "A") + "; " + describeRoom(t, c, "B"); got != "3: a@0 b@1 c@2; 2: x@0 y@1" {
			t.Fatalf("refused moves left %s", got)
		}
		mustDo(t, c, "B", room.Leave{User: "x", Session: "s"})
		left, joined, err := c.Move(t.Context(), "A", "B", "r", "b", "a")
		if err != nil || left.Version != 4 || joined.Version != 4 || left.Count() != 1 || joined.Count() != 3 {
			t.Fatalf("%+v, %+v, %v", left, joined, err)
		}
		got := describeRoom(t, other, "A") + "; " + describeRoom(t, other, "B")
		redistest.ErrorIf(t, got != "4: c@2; 4: (b)@0 y@1 (a)@2", "the rooms are %s", got)
		redistest.Equal(t, "the journal has", describeJournal(t, c, "A"), "4 -b@1 -a@0")
		// Both nodes go on, from copies that are old now.
		mustDo(t, other, "B", room.Join{User: "a", Session: "new"})
		mustDo(t, other, "A", room.Join{User: "d", Session: "s"})
		mustDo(t, c, "B", room.Leave{User: "b", Session: "r"})
		mustDo(t, c, "A", room.Leave{User: "d", Session: "s"})
		if got := describeRoom(t, c, "A") + "; " + describeRoom(t, c, "B"); got != "6: c@2; 6: y@1 a@2" {
			t.Errorf("the rooms are %s", got)
		}
	})
}

// Users are moved to and fro between rooms by several nodes at once, in which others come and go.
// Whoever looks at both rooms in one step sees each user exactly once.
func TestMove_AtOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	const users = 6
	nodes := make([]*Coordinator, 3)
	for i := range nodes {
		nodes[i] = newCoordinator(t, server.Client(), Options{})
	}
	for i := range users {
		mustDo(t, nodes[0], "A", room.Join{User: fmt.Sprint("u", i), Session: "s"})
	}
	ctx, cancel := context.WithCancel(soon(t))
	var look, play sync.WaitGroup
	client := server.Client()
	looks := 0
	look.Go(func() {
		for ctx.Err() == nil {
			var a, b *redis.MapStringStringCmd
			if _, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				a, b = p.HGetAll(ctx, "Room:A:Users"), p.HGetAll(ctx, "Room:B:Users")
				return nil
			}); err != nil {
				continue
			}
			looks++
			for i := range users {
				user := fmt.Sprint("u", i)
				_, inA := a.Val()[user]
				if _, inB := b.Val()[user]; inA == inB {
					t.Errorf("%s is in A: %v, in B: %v", user, inA, inB)
					return
				}
			}
		}
	})
	for n, c := range nodes {
		play.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for i := range 60 {
				from, to := "A", "B"
				if r.IntN(2) == 0 {
					from, to = to, from
				}
				u := r.IntN(users)
				_, _, err := c.Move(ctx, from, to, fmt.Sprint("r", n, i), fmt.Sprint("u", u), fmt.Sprint("u", (u+1)%users))
				redistest.ErrorIf(t, err != nil && !errors.Is(err, room.ErrNotMember), "move: %v", err)
				if _, err := c.Do(ctx, to, room.Join{User: fmt.Sprint("x", n), Session: "s"}); err != nil {
					t.Errorf("join: %v", err)
				}
			}
		})
	}
	play.Wait()
	cancel()
	look.Wait()
	redistest.ErrorIf(t, looks < 10, "looked %d times only", looks)
}
