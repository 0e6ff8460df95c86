package coordinator

import (
	"context"
	"fmt"
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

// Copies of idle rooms are dropped: the oldest when there are too many, all after a while.
func TestCopy_Goes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := onMini(t, Options{MaxCopies: 3 * (emptyCopySize + 1)})
		expect := func(copies int) {
			t.Helper()
			time.Sleep(time.Second)
			redistest.Equal(t, "the copies", c.Stats().Copies, copies)
		}
		for i := range 5 {
			mustDo(t, c, fmt.Sprint("room", i), room.Join{User: "a", Session: "s"})
		}
		expect(3)
		time.Sleep(copyIdle / 2)
		mustDo(t, c, "room3", room.Join{User: "b", Session: "s"})
		r := mustDo(t, c, "room0", room.Join{User: "b", Session: "s"})
		redistest.ErrorIf(t, r.Version != 2 || r.Seat != 1, "%+v", r)
		time.Sleep(copyIdle / 2)
		expect(2)
		time.Sleep(copyIdle)
		expect(0)
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
			redistest.ErrorIf(t, !contended && n.commits.Load() != 3, "%d commits for 3 actions", n.commits.Load())
			left := rdb.ZRange(t.Context(), "LockRoom:42:Queue", 0, -1).Val()
			redistest.ErrorIf(t, len(left) > 0, "%v wait in line", left)
		})
	}
}

// Nodes that share a busy room keep their places in the line, so that a hold is one request.
// When nothing is left to do they give them up.
func TestLookahead_BusyRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		var n counting
		var nodes []*Coordinator
		for range 3 {
			client := redistest.MiniClient(t, mini)
			warm(t, client)
			client.AddHook(n.hook())
			beforeScript(client, store.CommitScript, func() error {
				time.Sleep(2 * time.Millisecond) // so the others have to wait
				return nil
			})
			nodes = append(nodes, newCoordinator(t, client, Options{}))
		}
		var wg sync.WaitGroup
		for i, c := range nodes {
			wg.Go(func() {
				user := fmt.Sprint(i)
				for range 50 {
					time.Sleep(time.Millisecond) // players think, for less than the line takes
					mustDo(t, c, "42", room.Join{User: user, Session: "s"})
					time.Sleep(time.Millisecond)
					mustDo(t, c, "42", room.Leave{User: user, Session: "s"})
				}
			})
		}
		wg.Wait()
		t.Logf("%d requests for the lock, %d commits", n.takes.Load(), n.commits.Load())
		redistest.ErrorIf(t, n.takes.Load() > n.commits.Load()/2,
			"%d requests for the lock, %d commits", n.takes.Load(), n.commits.Load())
		time.Sleep(time.Second)
		got := keysOf(t, rdb)
		redistest.ErrorIf(t, len(got) != 1 || got[0] != "Room:42:Meta", "left over: %v", got)
		// A lone player does not have to wait for anybody.
		start := time.Now()
		mustDo(t, nodes[0], "42", room.Join{User: "a", Session: "s"})
		d := time.Since(start)
		redistest.ErrorIf(t, d > 2*time.Millisecond, "it waited for %v", d)
	})
}
