package coordinator

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// mover returns a coordinator on one Redis whose client has a hook, and another coordinator, by
// which a and b have joined room A, and x room B.
func mover(t *testing.T, client func() *redis.Client, opts Options, hook redistest.Hook) (c, other *Coordinator) {
	t.Helper()
	other = newCoordinator(t, client(), Options{})
	mustDo(t, other, "A", room.Join{User: "a", Session: "s"})
	mustDo(t, other, "A", room.Join{User: "b", Session: "s"})
	mustDo(t, other, "B", room.Join{User: "x", Session: "s"})
	rdb := client()
	rdb.AddHook(hook)
	warm(t, rdb)
	warmUp(t, rdb, store.MoveScript)
	return newCoordinator(t, rdb, opts), other
}

func describeBoth(t *testing.T, c *Coordinator) string {
	t.Helper()
	return describeRoom(t, c, "A") + "; " + describeRoom(t, c, "B")
}

// loseLocks does what the TTL does.
func loseLocks(rdb *redis.Client) {
	rdb.Del(context.Background(), "LockRoom:A", "LockRoom:B")
}

// The reply to a move is lost, and it is sent again: it counts once, at its own versions, also
// if the locks are lost meanwhile and others write to both rooms, this node among them.
func TestMove_ReplyLost(t *testing.T) {
	for name, lost := range map[string]bool{"locks held": false, "locks lost": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client func() *redis.Client) {
				var c, other *Coordinator
				rdb, want := client(), "3: b@1; 2: x@0 (a)@1"
				c, other = mover(t, client, Options{}, redistest.Hook{After: once(store.MoveScript, func() error {
					if lost {
						loseLocks(rdb)
						mustDo(t, other, "A", room.Join{User: "c", Session: "s"})
						mustDo(t, c, "A", room.Join{User: "d", Session: "s"})
						mustDo(t, c, "B", room.Leave{User: "x", Session: "s"})
						want = "5: c@0 b@1 d@2; 3: (a)@1"
					}
					return io.ErrUnexpectedEOF
				})})
				left, joined, err := c.Move(soon(t), "A", "B", "r", "a")
				redistest.ErrorIf(t, err != nil || left.Version != 3 || joined.Version != 2,
					"moved to versions %d and %d, %v", left.Version, joined.Version, err)
				redistest.Equal(t, "the rooms are", describeBoth(t, other), want)
			})
		})
	}
}

// The same, and meanwhile another node has moved the user back: nobody can tell any more.
func TestMove_ReplyAndTraceLost(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	var other *Coordinator
	c, other := mover(t, server.Client, Options{}, redistest.Hook{After: once(store.MoveScript, func() error {
		loseLocks(rdb)
		mustMove(t, other, "B", "A", "r2", "a")
		return io.ErrUnexpectedEOF
	})})
	_, _, err := c.Move(soon(t), "A", "B", "r", "a")
	redistest.ErrorIf(t, !errors.Is(err, room.ErrUnknown), "move: %v", err)
	redistest.Equal(t, "the rooms are", describeBoth(t, other), "4: (a)@0 b@1; 3: x@0")
}

// A request is lost, and the locks are lost before it is sent again: the room tells that nothing
// was written, and the move runs again.
func TestMove_RequestLost(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c, other := mover(t, client, Options{}, redistest.Hook{Before: once(store.MoveScript, func() error {
			loseLocks(rdb)
			return io.ErrUnexpectedEOF
		})})
		mustMove(t, c, "A", "B", "r", "a", "b")
		redistest.Equal(t, "the rooms are", describeBoth(t, other), "3:; 2: x@0 (a)@1 (b)@2")
	})
}

// A node stalls for longer than the TTL before the script, and others write to the rooms: the old
// hold changes nothing, and the move runs again under a new one.
func TestMove_Stalls(t *testing.T) {
	t.Parallel()
	for name, stall := range map[string]struct {
		do   func(rdb *redis.Client, other *Coordinator)
		want string
		err  error
	}{
		"both locks lost": {func(rdb *redis.Client, other *Coordinator) {
			loseLocks(rdb)
			mustDo(t, other, "A", room.Join{User: "c", Session: "s"})
			mustDo(t, other, "B", room.Join{User: "y", Session: "s"})
		}, "4: b@1 c@2; 3: x@0 y@1 (a)@2", nil},
		"one lock lost": {func(rdb *redis.Client, other *Coordinator) {
			rdb.Del(context.Background(), "LockRoom:B")
			mustDo(t, other, "B", room.Leave{User: "x", Session: "s"})
		}, "3: b@1; 3: (a)@0", nil},
		"the user leaves meanwhile": {func(rdb *redis.Client, other *Coordinator) {
			loseLocks(rdb)
			mustDo(t, other, "A", room.Leave{User: "a", Session: "s"})
		}, "3: b@1; 1: x@0", room.ErrNotMember},
		"a room is another one although the locks are held": {func(rdb *redis.Client, other *Coordinator) {
			rdb.HSet(context.Background(), "Room:B:Meta", "version", 7, "mark", "another commit's")
		}, "3: b@1; 8: x@0 (a)@1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client func() *redis.Client) {
				rdb := client()
				var other *Coordinator
				c, other := mover(t, client, Options{}, redistest.Hook{Before: once(store.MoveScript, func() error {
					stall.do(rdb, other)
					return nil
				})})
				if _, _, err := c.Move(soon(t), "A", "B", "r", "a"); !errors.Is(err, stall.err) {
					t.Errorf("move: %v", err)
				}
				redistest.Equal(t, "the rooms are", describeBoth(t, other), stall.want)
				n := rdb.Exists(t.Context(), "LockRoom:A", "LockRoom:B").Val()
				redistest.ErrorIf(t, n != 0, "%d locks are left over", n)
			})
		})
	}
}

// The same, but another holds one of the locks when the script arrives: nothing is written as long as that holds it.
func TestMove_StallsLeavesTheLocksAlone(t *testing.T) {
	for _, id := range []string{"A", "B"} {
		t.Run(id, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client func() *redis.Client) {
				rdb, key := client(), "LockRoom:"+id
				var other *Coordinator
				c, other := mover(t, client, Options{}, redistest.Hook{
					Before: once(store.MoveScript, func() error {
						return rdb.Set(context.Background(), key, "another", time.Hour).Err()
					}),
					After: once(store.MoveScript, func() error {
						redistest.Equal(t, "the lock holds", rdb.Get(context.Background(), key).Val(), "another")
						redistest.Equal(t, "the rooms are", describeBoth(t, other), "2: a@0 b@1; 1: x@0")
						return rdb.Del(context.Background(), key).Err()
					}),
				})
				mustMove(t, c, "A", "B", "r", "a")
				redistest.Equal(t, "the rooms are", describeBoth(t, other), "3: b@1; 2: x@0 (a)@1")
			})
		})
	}
}

// The reply to a leave is lost, and this node moves another user out of the room before the leave
// is sent again: it still counts as written, once.
func TestMove_WorkersToken(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		var c *Coordinator
		var armed atomic.Bool
		lose := once(store.CommitScript, func() error {
			mustMove(t, c, "A", "B", "r", "b")
			return io.ErrUnexpectedEOF
		})
		c, other := mover(t, client, Options{}, redistest.Hook{After: func(ctx context.Context, cmd redis.Cmder) error {
			if !armed.Load() {
				return nil
			}
			return lose(ctx, cmd)
		}})
		armed.Store(true)
		r, err := c.Do(soon(t), "A", room.Leave{User: "a", Session: "s"})
		redistest.ErrorIf(t, err != nil || r.Version != 3, "leave: version %d, %v", r.Version, err)
		redistest.Equal(t, "the rooms are", describeBoth(t, other), "4:; 2: x@0 (b)@1")
	})
}

// Redis dies before, or with, the script.
func TestMove_RedisDies(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	opts := patient(Options{LockTTL: 500 * time.Millisecond, NodeTTL: time.Minute})
	c, other := mover(t, server.Client, opts, redistest.Hook{Before: once(store.MoveScript, func() error {
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
