package coordinator

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

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
