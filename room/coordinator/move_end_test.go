package coordinator

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// A node gets a new name before the script: nothing is written under the old one.
func TestMove_NodeRenamed(t *testing.T) {
	server := redistest.Start(t)
	var c *Coordinator
	var before string
	rdb := server.Client()
	var renamed atomic.Bool
	c, other := mover(t, server.Client, Options{}, redistest.Hook{After: func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); c == nil || !strings.HasPrefix(cmd.Name(), "eval") || len(args) < 4 || args[3] != "LockRoom:A" || !renamed.CompareAndSwap(false, true) {
			return nil
		}
		rdb.Del(ctx, unprefixed.Lease(before)) // the locks have just been taken
		return c.node.Prolong(soon(t))         // which may take longer than ctx lets a request for a lock take
	}})
	redistest.OK(t, c.Start(soon(t)))
	before = c.Node()
	_, joined, err := c.Move(soon(t), "A", "B", "r", "a")
	redistest.ErrorIf(t, err != nil || joined.Node == before || joined.Node != c.Node(),
		"moved by %q, once %q, now %q: %v", joined.Node, before, c.Node(), err)
	redistest.Equal(t, "the rooms are", describeBoth(t, other), "3: b@1; 2: x@0 (a)@1")
}

// This node has no member in the room yet, and compares its records there just before the script:
// they stay. Otherwise nobody would remove the members when the node dies.
func TestMove_RecordsStay(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		var c *Coordinator
		c, _ = mover(t, client, Options{}, redistest.Hook{Before: once(store.MoveScript, func() error {
			return c.node.Reconcile("B")
		})})
		mustMove(t, c, "A", "B", "r", "a")
		rooms := c.store.Client.SMembers(t.Context(), unprefixed.NodeRooms(c.Node())).Val()
		redistest.ErrorIf(t, len(rooms) != 1 || rooms[0] != "B", "it may have members in %v", rooms)
	})
}

// Close waits for a move that has begun, and keeps the lease meanwhile.
func TestMove_Close(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		var c *Coordinator
		rdb := client()
		closed := make(chan error, 1)
		c, other := mover(t, client, Options{}, redistest.Hook{
			Before: once(store.MoveScript, func() error {
				go func() { closed <- c.Close(soon(t)) }()
				awaitUntil(t, patience, func() string {
					if c.life.open.Err() == nil {
						return "Close has not begun"
					}
					return ""
				})
				_, _, err := c.Move(soon(t), "A", "B", "r2", "b")
				redistest.ErrorIf(t, !errors.Is(err, room.ErrClosed), "a move after that: %v", err)
				return nil
			}),
			After: once(store.MoveScript, func() error {
				redistest.ErrorIf(t, rdb.Exists(t.Context(), unprefixed.Lease(c.Node())).Val() == 0 || len(closed) > 0,
					"the node has written without a lease")
				return nil
			}),
		})
		redistest.OK(t, c.Start(soon(t)))
		mustMove(t, c, "A", "B", "r", "a")
		redistest.OK(t, redistest.Receive(t, closed, "Close"))
		redistest.Equal(t, "room B is", describeRoom(t, other, "B"), "2: x@0 (a)@1")
	})
}

// Close with a context that ends does not wait for the locks of a move.
func TestMove_CloseDoesNotWaitForLocks(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	c, _ := mover(t, server.Client, Options{LockWait: time.Hour}, redistest.Hook{})
	rdb.Set(t.Context(), "LockRoom:B", "somebody", time.Hour)
	moved := make(chan error, 1)
	go func() {
		_, _, err := c.Move(context.Background(), "A", "B", "r", "a")
		moved <- err
	}()
	awaitQueue(t, rdb, "LockRoom:B:Queue", 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- c.Close(ended) }()
	_ = redistest.Receive(t, closed, "Close")
	redistest.ErrorIs(t, "move", redistest.Receive(t, moved, "the move"), room.ErrClosed)
}

func awaitQueue(t *testing.T, rdb *redis.Client, key string, want int64) {
	t.Helper()
	awaitUntil(t, patience, func() string {
		if rdb.ZCount(t.Context(), key, "-inf", "(1e18").Val() == want {
			return ""
		}
		return key + " has another length"
	})
}

// Whoever gives up, or waits for too long, leaves nothing behind. The moves of others wait no
// longer for it.
func TestMove_GivesUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	c, other := mover(t, server.Client, Options{LockWait: 300 * time.Millisecond}, redistest.Hook{})
	rdb.Set(t.Context(), "LockRoom:B", "somebody", time.Hour)
	if _, _, err := c.Move(soon(t), "A", "B", "r", "a"); !errors.Is(err, room.ErrBusy) {
		t.Errorf("move: %v", err)
	}
	patient := newCoordinator(t, server.Client(), Options{})
	ctx, cancel := context.WithCancelCause(soon(t))
	moved := make(chan error, 2)
	for _, user := range []string{"a", "b"} {
		go func() {
			_, _, err := patient.Move(ctx, "A", "B", "r", user)
			moved <- err
		}()
	}
	awaitQueue(t, rdb, "LockRoom:B:Queue", 1)
	cancel(io.ErrClosedPipe)
	for range 2 {
		if err := redistest.Receive(t, moved, "the move"); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, room.ErrUnknown) {
			t.Errorf("move: %v", err)
		}
	}
	awaitQueue(t, rdb, "LockRoom:B:Queue", 0)
	awaitQueue(t, rdb, "LockRoom:A:Queue", 0)
	rdb.Del(t.Context(), "LockRoom:B")
	mustMove(t, c, "A", "B", "r", "a", "b")
	redistest.Equal(t, "the rooms are", describeBoth(t, other), "3:; 2: x@0 (a)@1 (b)@2")
}
