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
)

// A node gets a new name before the script: nothing is written under the old one.
func TestANodeIsRenamedDuringAMove(t *testing.T) {
	server := redistest.Start(t)
	var c *Coordinator
	var before string
	rdb := server.Client()
	var renamed atomic.Bool
	c, other := mover(t, server.Client, Options{}, redistest.Hook{After: func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); c == nil || !strings.HasPrefix(cmd.Name(), "eval") || len(args) < 4 || args[3] != "LockRoom:A" || !renamed.CompareAndSwap(false, true) {
			return nil
		}
		rdb.Del(ctx, nodeKey(before)) // the locks have just been taken
		return c.membership.prolong(ctx)
	}})
	if err := c.Start(soon(t)); err != nil {
		t.Fatal(err)
	}
	before = c.Node()
	_, joined, err := c.Move(soon(t), "A", "B", "r", "a")
	if err != nil || joined.Node == before || joined.Node != c.Node() {
		t.Errorf("moved by %q, once %q, now %q: %v", joined.Node, before, c.Node(), err)
	}
	if got := describeBoth(t, other); got != "3: b@1; 2: x@0 (a)@1" {
		t.Errorf("the rooms are %s", got)
	}
}

// This node has no member in the room yet, and compares its records there just before the script:
// they stay. Otherwise nobody would remove the members when the node dies.
func TestTheRecordsOfAMoveStay(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		var c *Coordinator
		c, _ = mover(t, client, Options{}, redistest.Hook{Before: once(moveScript, func() error {
			return c.workers.visit("B")
		})})
		if _, _, err := c.Move(soon(t), "A", "B", "r", "a"); err != nil {
			t.Fatal(err)
		}
		rooms := c.store.client.SMembers(t.Context(), nodeRoomsKey(c.Node())).Val()
		if len(rooms) != 1 || rooms[0] != "B" {
			t.Errorf("it may have members in %v", rooms)
		}
	})
}

// Moves into one room do not wait for each other's locks, and a move gives up with its context
// while records are deleted.
func TestRecordUses(t *testing.T) {
	var u recordUses
	first, err := u.use(t.Context(), "A")
	second, err2 := u.use(t.Context(), "A")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, end := range []func(){first, second} {
		if _, free := u.delete("A"); free {
			t.Error("records are deleted that a move relies on")
		}
		end()
	}
	deleted, free := u.delete("A")
	if !free {
		t.Fatal("nobody relies on them")
	}
	if _, free := u.delete("A"); free {
		t.Error("deleted twice at once")
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if _, err := u.use(ended, "A"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("use: %v", err)
	}
	waits := make(chan func(), 1)
	go func() {
		end, _ := u.use(t.Context(), "A")
		waits <- end
	}()
	deleted()
	await(t, waits, "the records to be deleted")()
	if len(u.rooms) != 0 {
		t.Errorf("%d are left", len(u.rooms))
	}
}

// Close waits for a move that has begun, and keeps the lease meanwhile.
func TestCloseDuringAMove(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		var c *Coordinator
		rdb := client()
		closed := make(chan error, 1)
		c, other := mover(t, client, Options{}, redistest.Hook{
			Before: once(moveScript, func() error {
				go func() { closed <- c.Close(soon(t)) }()
				awaitUntil(t, patience, func() string {
					if c.lifetime.open.Err() == nil {
						return "Close has not begun"
					}
					return ""
				})
				if _, _, err := c.Move(soon(t), "A", "B", "r2", "b"); !errors.Is(err, room.ErrClosed) {
					t.Errorf("a move after that: %v", err)
				}
				return nil
			}),
			After: once(moveScript, func() error {
				if rdb.Exists(t.Context(), nodeKey(c.Node())).Val() == 0 || len(closed) > 0 {
					t.Error("the node has written without a lease")
				}
				return nil
			}),
		})
		if err := c.Start(soon(t)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Move(soon(t), "A", "B", "r", "a"); err != nil {
			t.Errorf("move: %v", err)
		}
		if err := await(t, closed, "Close"); err != nil {
			t.Errorf("close: %v", err)
		}
		if got := describeRoom(t, other, "B"); got != "2: x@0 (a)@1" {
			t.Errorf("room B is %s", got)
		}
	})
}

// Close with a context that ends does not wait for the locks of a move.
func TestCloseDoesNotWaitForTheLocksOfAMove(t *testing.T) {
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
	_ = await(t, closed, "Close")
	if err := await(t, moved, "the move"); !errors.Is(err, room.ErrClosed) {
		t.Errorf("move: %v", err)
	}
}

func awaitQueue(t *testing.T, rdb *redis.Client, key string, want int64) {
	t.Helper()
	awaitUntil(t, patience, func() string {
		if rdb.ZCard(t.Context(), key).Val() == want {
			return ""
		}
		return key + " has another length"
	})
}

// Whoever gives up, or waits for too long, leaves nothing behind. The moves of others wait no
// longer for it.
func TestAMoveGivesUp(t *testing.T) {
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
		if err := await(t, moved, "the move"); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, room.ErrUnknown) {
			t.Errorf("move: %v", err)
		}
	}
	awaitQueue(t, rdb, "LockRoom:B:Queue", 0)
	awaitQueue(t, rdb, "LockRoom:A:Queue", 0)
	rdb.Del(t.Context(), "LockRoom:B")
	if _, _, err := c.Move(soon(t), "A", "B", "r", "a", "b"); err != nil {
		t.Errorf("move: %v", err)
	}
	if got := describeBoth(t, other); got != "3:; 2: x@0 (a)@1 (b)@2" {
		t.Errorf("the rooms are %s", got)
	}
}
