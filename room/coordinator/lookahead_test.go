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

// A place that was kept in vain is not kept again before it would have been of use.
func TestLookahead_Pays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p lookahead
		p.holdEnded()
		time.Sleep(time.Millisecond)
		if p.missing(); p.pays {
			t.Error("it pays, though nobody has ever waited")
		}
		time.Sleep(10 * time.Millisecond)
		p.reached()
		for _, test := range []struct {
			gap  time.Duration
			pays bool
		}{{10 * time.Millisecond, true}, {11 * time.Millisecond, false}, {0, true}} {
			p.holdEnded()
			time.Sleep(test.gap)
			if p.missing(); p.pays != test.pays {
				t.Errorf("after %v it pays: %v", test.gap, p.pays)
			}
			time.Sleep(10 * time.Millisecond)
			p.reached()
		}
	})
}

// A place is given up when nothing comes for a while, and at once when the coordinator is
// closed.
func TestLookahead_GivenUp(t *testing.T) {
	for _, closed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			mini, rdb := redistest.Mini(t)
			c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
			mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
			rdb.Set(t.Context(), "LockRoom:42", "another's", time.Minute)
			c.workers.mu.Lock()
			d := c.workers.byRoom["42"]
			c.workers.mu.Unlock()
			d.lookahead = lookahead{pays: true, waited: 20 * time.Millisecond}
			done := make(chan struct{})
			start := time.Now()
			go func() { d.waitAhead(); close(done) }()
			synctest.Wait()
			want := 40 * time.Millisecond
			if closed {
				want = 0
				c.life.shut()
			}
			redistest.Receive(t, done, "its end")
			if took := time.Since(start); took != want || d.held || d.lookahead.pays {
				t.Errorf("closed %v: after %v, turn %v, pays %v", closed, took, d.held, d.lookahead.pays)
			}
		})
	}
}
