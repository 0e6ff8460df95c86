package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

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

// Redis dies before, or with, the script.
func TestMove_RedisDies(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c, other := mover(t, server.Client, patient(Options{LockTTL: 500 * time.Millisecond, NodeTTL: time.Minute}), redistest.Hook{Before: once(store.MoveScript, func() error {
		server.Kill()
		return nil
	})})
	if _, _, err := c.Move(soon(t), "A", "B", "r", "a"); !errors.Is(err, room.ErrUnknown) {
		t.Errorf("killed at the script: %v", err)
	}
	if _, _, err := c.Move(soon(t), "A", "B", "r", "a"); !errors.Is(err, room.ErrUnavailable) {
		t.Errorf("without Redis: %v", err)
	}
	server.Restart()
	awaitUntil(t, patience, func() string {
		_, _, err := c.Move(soon(t), "A", "B", "r", "a")
		if errors.Is(err, room.ErrUnavailable) {
			return err.Error()
		}
		redistest.OK(t, err)
		return ""
	})
	redistest.Equal(t, "the rooms are", describeBoth(t, other), "3: b@1; 2: x@0 (a)@1")
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
