package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
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

// Redis has no memory for who comes in: nobody is moved.
func TestMove_NoMemory(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	limit := func(bytes string) error { return rdb.ConfigSet(context.Background(), "maxmemory", bytes).Err() }
	c, other := mover(t, server.Client, Options{}, redistest.Hook{Before: once(store.MoveScript, func() error { return limit("1") })})
	_, _, err := c.Move(soon(t), "A", "B", "r", "a")
	redistest.ErrorIf(t, !errors.Is(err, room.ErrUnavailable) || errors.Is(err, room.ErrUnknown), "move: %v", err)
	if _, _, err := c.Move(soon(t), "A", "B", "r", "a"); !errors.Is(err, room.ErrUnavailable) {
		t.Errorf("without memory for the locks: %v", err)
	}
	redistest.Equal(t, "the rooms are", describeBoth(t, other), "2: a@0 b@1; 1: x@0")
	redistest.OK(t, limit("0"))
	mustMove(t, c, "A", "B", "r", "a")
}

// With Options.Replicas a move is acknowledged when a replica has it.
func TestMove_Replica(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	c, other := mover(t, server.Client, Options{Replicas: 1, LockTTL: time.Second}, redistest.Hook{})
	_, _, err := c.Move(soon(t), "A", "B", "r", "a")
	redistest.ErrorIf(t, !errors.Is(err, room.ErrUnknown), "without a replica: %v", err)
	redistest.Equal(t, "the rooms are", describeBoth(t, other), "3: b@1; 2: x@0 (a)@1")
	replica := redistest.Start(t)
	host, port, _ := strings.Cut(server.Addr(), ":")
	redistest.OK(t, replica.Client().ReplicaOf(t.Context(), host, port).Err())
	replicated(t, server.Client())
	mustMove(t, c, "A", "B", "r", "b")
	_, inB := replica.Client().HGetAll(t.Context(), "Room:B:Users").Val()["b"]
	redistest.ErrorIf(t, !inB, "the replica does not have it")
}

// Redis has lost some of a room: the move begins a new epoch there, with those who are left.
func TestMove_RoomNotWhole(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		c, _ := mover(t, client, Options{}, redistest.Hook{})
		before := mustRead(t, c, "A")
		c.store.Client.HDel(t.Context(), "Room:A:Users", "b")
		c.store.Client.HDel(t.Context(), "Room:B:Users", "x")
		left, joined, err := c.Move(soon(t), "A", "B", "r", "a")
		if err != nil || left.Epoch == before.Epoch || left.Count() != 0 || describeUsers(joined.Users()) != "a@0" {
			t.Errorf("%+v, %+v, %v", left, joined, err)
		}
		if now, err := c.Read(soon(t), "A"); err != nil || now.Epoch != left.Epoch || now.Version != left.Version {
			t.Errorf("then it is %+v, %v", now, err)
		}
	})
}

// The target refuses by its settings, its bans or the game's rule; who is there already keeps
// the seat and the session.
func TestMove_TargetRefuses(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		c, other := mover(t, client, Options{}, redistest.Hook{})
		mustDo(t, other, "B", room.Join{User: "a", Session: "own"})
		mustDo(t, other, "B", room.Kick{User: "x", Until: time.Now().Add(time.Hour).UnixMilli()})
		mustDo(t, other, "A", room.Join{User: "x", Session: "s"})
		mustDo(t, other, "A", room.Join{User: "y", Session: "s"})
		before := describeBoth(t, other)
		_, _, err := c.Move(soon(t), "A", "B", "r", "b", "x")
		redistest.ErrorIf(t, !errors.Is(err, room.ErrBanned), "banned: %v", err)
		rule := errors.New("no more than two of us")
		picky := newCoordinator(t, client(), Options{Rules: room.Rules{Seating: seatingFunc(func(in room.View, user string, asked int) (int, error) {
			if user == "y" {
				return 0, rule
			}
			return room.Capacity(0).Seat(in, user, asked)
		})}})
		if _, _, err := picky.Move(soon(t), "A", "B", "r", "b", "y"); !errors.Is(err, rule) || errors.Is(err, room.ErrUnavailable) {
			t.Errorf("the game's rule: %v", err)
		}
		got := describeBoth(t, other)
		redistest.ErrorIf(t, got != before, "refused moves made %s of %s", got, before)
		if _, joined, err := c.Move(soon(t), "A", "B", "r", "a"); err != nil || describeUsers(joined.Users()) != "a@1" {
			t.Errorf("%+v, %v", joined, err)
		}
		mustDo(t, other, "B", room.Leave{User: "a", Session: "own"})
		mustDo(t, other, "B", room.Configure{Settings: room.Settings{Closed: true}})
		if _, _, err := c.Move(soon(t), "A", "B", "r", "b"); !errors.Is(err, room.ErrRoomClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// seatingFunc is a game's own rule.
type seatingFunc func(in room.View, user string, asked int) (int, error)

func (f seatingFunc) Seat(in room.View, user string, asked int) (int, error) {
	return f(in, user, asked)
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
				pair := []string{fmt.Sprint("u", u), fmt.Sprint("u", (u+1)%users)}
				_, _, err := c.Move(ctx, from, to, fmt.Sprint("r", n, i), pair...)
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
