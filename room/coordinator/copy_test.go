package coordinator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// counting counts the commands of a client that ask for a lock, read a room, and
// commit.
type counting struct{ takes, reads, commits atomic.Int32 }

func (n *counting) hook() redistest.Hook {
	return redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		switch args := cmd.Args(); {
		case isScript(cmd, store.AcquireScript):
			n.takes.Add(1)
			if fmt.Sprint(args[len(args)-1]) == "0" {
				n.reads.Add(1)
			}
		case isScript(cmd, store.CommitScript):
			n.commits.Add(1)
		}
		return nil
	}}
}

// A node reads a room once; from then on an action is one request.
func TestHold_Requests(t *testing.T) {
	_, rdb := redistest.Mini(t)
	warm(t, rdb)
	var n counting
	rdb.AddHook(n.hook())
	c := newCoordinator(t, rdb, Options{})
	for i := range 5 {
		mustDo(t, c, "42", room.Join{User: fmt.Sprint(i), Session: "s"})
		mustDo(t, c, "42", room.Leave{User: fmt.Sprint(i), Session: "s"})
	}
	if n.takes.Load() != 1 || n.reads.Load() != 1 || n.commits.Load() != 10 {
		t.Errorf("asked %d times for the lock, read %d times, committed %d times", n.takes.Load(), n.reads.Load(), n.commits.Load())
	}
}

// Another node has written to the room since: the copy is old, and the action runs on the
// room as it is now.
func TestCopy_Old(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		c, other := newCoordinator(t, client(), Options{}), newCoordinator(t, client(), Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, other, "42", room.Join{User: "b", Session: "s"})
		mustDo(t, other, "42", room.Leave{User: "a", Session: "s"})
		if r := mustDo(t, c, "42", room.Join{User: "c", Session: "s"}); describeUsers(r.Users()) != "c@0 b@1" || r.Version != 4 {
			t.Errorf("%s at version %d", describeUsers(r.Users()), r.Version)
		}
		expectRefused(t, "a leaves again", other, "42", room.Leave{User: "a", Session: "s"}, room.ErrNotMember)
	})
}

// Nodes that fight over a room keep their copies up to date by each other's events, and
// hardly ever read the room.
func TestCopy_FollowsOtherNodes(t *testing.T) {
	server := redistest.Start(t)
	var wg sync.WaitGroup
	var n counting
	const nodes, players, rounds = 3, 8, 40
	for node := range nodes {
		rdb := server.Client()
		rdb.AddHook(n.hook())
		c := newCoordinator(t, rdb, Options{})
		for p := range players {
			wg.Go(func() {
				user := fmt.Sprintf("player%d-%d", node, p)
				for range rounds {
					mustDo(t, c, "42", room.Join{User: user, Session: "s"})
					mustDo(t, c, "42", room.Leave{User: user, Session: "s"})
				}
				mustDo(t, c, "42", room.Join{User: user, Session: "s"})
			})
		}
	}
	wg.Wait()
	s, err := newCoordinator(t, server.Client(), Options{}).Read(t.Context(), "42")
	if err != nil || s.Count() != nodes*players {
		t.Errorf("%d are in the room, %v", s.Count(), err)
	}
	if reads, commits := n.reads.Load(), n.commits.Load(); reads > commits/4 {
		t.Errorf("the room was read %d times for %d commits", reads, commits)
	}
}

// Copies of idle rooms are dropped: the oldest when there are too many, all after a while.
func TestCopy_Goes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := onMini(t, Options{MaxCopies: 3 * (emptyCopySize + 1)})
		open := func() (ids []string) {
			time.Sleep(time.Second)
			c.workers.mu.Lock()
			defer c.workers.mu.Unlock()
			for id := range c.workers.byRoom {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			return ids
		}
		for i := range 5 {
			mustDo(t, c, fmt.Sprint("room", i), room.Join{User: "a", Session: "s"})
		}
		if got := open(); !slices.Equal(got, []string{"room2", "room3", "room4"}) {
			t.Errorf("copies of %v are left", got)
		}
		time.Sleep(copyIdle / 2)
		mustDo(t, c, "room3", room.Join{User: "b", Session: "s"})
		if r := mustDo(t, c, "room0", room.Join{User: "b", Session: "s"}); r.Version != 2 || r.Seat != 1 {
			t.Errorf("%+v", r)
		}
		time.Sleep(copyIdle / 2)
		if got := open(); !slices.Equal(got, []string{"room0", "room3"}) {
			t.Errorf("copies of %v are left", got)
		}
		time.Sleep(copyIdle)
		if got := open(); len(got) > 0 || c.workers.copies != 0 {
			t.Errorf("copies of %v are left, counted as %d", got, c.workers.copies)
		}
	})
}

// The reply of a commit that handed the lock on to the same node is lost: both
// batches count once.
func TestHold_LostReplyThatKeepsTheLock(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, rdb, Options{MaxBatch: 1})
		second := make(chan room.Result, 1)
		rdb.AddHook(redistest.Hook{
			Before: once(store.AcquireScript, func() error { // the second waits when the first commits
				go func() { second <- mustDo(t, c, "42", room.Join{User: "b", Session: "s"}) }()
				for waits := 0; waits < 2; {
					c.workers.mu.Lock()
					d := c.workers.byRoom["42"]
					c.workers.mu.Unlock()
					d.queue.mu.Lock()
					waits = len(d.queue.waiting)
					d.queue.mu.Unlock()
				}
				return nil
			}),
			After: once(store.CommitScript, func() error { return io.ErrUnexpectedEOF }),
		})
		warm(t, rdb)
		if r := mustDo(t, c, "42", room.Join{User: "a", Session: "s"}); r.Version != 1 {
			t.Errorf("the first is version %d", r.Version)
		}
		if r := redistest.Receive(t, second, "the second join"); r.Version != 2 || describeUsers(r.Users()) != "a@0 b@1" {
			t.Errorf("%s at version %d", describeUsers(r.Users()), r.Version)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := keysOf(t, client()); slices.Contains(got, "LockRoom:42") || slices.Contains(got, "LockRoom:42:Queue") {
			t.Errorf("left over: %v", got)
		}
	})
}

// If no other node waits, a commit hands the lock to the next batch of the same node.
// Otherwise that waits in the line until nobody needs it any more.
func TestHold_StaysWithABusyNode(t *testing.T) {
	for _, contended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, rdb := redistest.Mini(t)
			var n counting
			c := newCoordinator(t, rdb, Options{MaxBatch: 1})
			mustDo(t, c, "42", room.Join{User: "z", Session: "s"})
			rdb.Set(t.Context(), "LockRoom:42", "another", 500*time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() { _, _ = c.Do(ctx, "42", room.Join{User: fmt.Sprint(i), Session: "s"}) })
			}
			time.Sleep(100 * time.Millisecond)
			if contended { // by one that has died
				rdb.ZAdd(t.Context(), "LockRoom:42:Queue", redis.Z{Score: 1e17, Member: "another"})
			}
			rdb.AddHook(n.hook())
			rdb.AddHook(redistest.Hook{After: once(store.CommitScript, func() error {
				if contended {
					cancel()
				}
				return nil
			})})
			wg.Wait()
			time.Sleep(time.Second)
			if !contended && n.commits.Load() != 3 {
				t.Errorf("%d commits for 3 actions", n.commits.Load())
			}
			if left := rdb.ZRange(t.Context(), "LockRoom:42:Queue", 0, -1).Val(); len(left) > 0 {
				t.Errorf("%v wait in line", left)
			}
		})
	}
}
