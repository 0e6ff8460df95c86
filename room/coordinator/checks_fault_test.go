package coordinator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest"
	"roomd/room"
)

// watchesAll has each of the nodes watch all of the rooms.
func watchesAll(t *testing.T, nodes []*Coordinator, rooms []string) {
	t.Helper()
	for _, node := range nodes {
		for _, id := range rooms {
			stop, err := node.Watch(soon(t), id, func(*room.Event) {})
			redistest.OK(t, err)
			t.Cleanup(stop)
		}
	}
}

// findNothing fails the test as soon as a check shows a room that differs, until stop is called.
func findNothing(t *testing.T, nodes []*Coordinator) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause.For(ctx, 20*time.Millisecond) == nil {
			for _, node := range nodes {
				for check, found := range node.Checks() {
					if found.Rooms > 0 {
						t.Errorf("%s of node %s: %+v", check, node.Node(), found)
						return
					}
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Redis comes back from an old copy, and a node stands still for so long that its members are removed, while
// everything is done to rooms that checks compare: an epoch that ends makes up for it.
func TestChecks_OldCopies(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	server, rooms := redistest.Start(t), []string{"42", "43"}
	proxy := redistest.StartProxy(t, server.Addr())
	opts := reporting(4)
	opts.LockTTL, opts.NodeTTL, opts.Grace = 500*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
	nodes := []*Coordinator{newCoordinator(t, server.Client(), opts), newCoordinator(t, proxy.Client(), opts)}
	watchesAll(t, nodes, rooms)
	ctx, cancel := context.WithCancel(t.Context())
	var acting sync.WaitGroup
	var done atomic.Int64
	for n, node := range nodes {
		for player := range 4 {
			acting.Go(func() {
				user, other := fmt.Sprintf("u%d-%d", n, player), fmt.Sprintf("u%d-%d", 1-n, player)
				for i := 0; ctx.Err() == nil; i++ {
					for _, a := range []room.Action{
						room.Join{User: user, Session: "s"}, room.Ready{User: user, Session: "s", Value: true}, room.SetMemberData{User: user, Session: "s", Data: fmt.Sprintf(`{"\u0041":%d}`, i)},
						room.SetData{Data: fmt.Sprintf(`[1.0,%d]`, i%3)}, room.Kick{User: other, Text: "enough"}, room.Kick{User: "x", Until: int64(i)},
						room.Configure{Settings: room.Settings{Capacity: 8, Keep: i%2 == 0, Host: room.HostLongest}}, room.Leave{User: user, Session: "s"}, room.Reserve{Session: "r", Users: []string{other}}, room.Release{Users: []string{other}},
					} {
						if _, err := node.Do(ctx, rooms[(i+player)%2], a); err == nil {
							done.Add(1)
						}
					}
				}
			})
		}
	}
	defer acting.Wait()
	defer cancel()
	goOn := func() {
		t.Helper()
		from := done.Load()
		awaitUntil(t, patience, func() string {
			if n := done.Load() - from; n < 100 {
				return fmt.Sprintf("only %d actions are done", n)
			}
			return ""
		})
		nodes[0].awaitChecks(t, 4)
	}
	stop := findNothing(t, nodes)
	defer stop()
	goOn()
	proxy.Pause()
	goOn()
	proxy.Resume()
	goOn()
	save(t, server)
	goOn()
	restartOld(server)
	goOn()
	nodes[1].awaitChecks(t, 6) // longer than confirmAfter
}

// On Cluster the keys of what nodes say of themselves are on the masters of their hash slots.
func TestChecks_Cluster(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	servers := redistest.StartCluster(t)
	a, b := newCoordinator(t, servers.Client(), reporting(4)), newCoordinator(t, servers.Client(), reporting(4))
	ids, _ := roomsOf(t, servers, 1, 2)
	watchesAll(t, []*Coordinator{a}, ids)
	for _, id := range ids {
		for i, node := range []*Coordinator{a, b} {
			mustDo(t, node, id, room.Join{User: fmt.Sprint("user", i), Session: "s"})
		}
	}
	mustMove(t, b, ids[0], ids[1], "s", "user1")
	if r := a.reportOf(t, b.Node(), func(r *NodeReport) bool { return r.Totals.Commits > 0 }); r.Node != b.Node() {
		t.Errorf("%+v", r)
	}
	b.reportOf(t, a.Node(), func(r *NodeReport) bool { return r.Checks[CheckCopies].Checked > 3*uint64(len(ids)) })
	for check, found := range a.Checks() {
		redistest.ErrorIf(t, found.Rooms > 0, "%s: %+v", check, found)
	}
	member := `{"seat":1,"session":"s","node":"n","at":1}`
	redistest.OK(t, servers.Client().HSet(t.Context(), usersOf(ids[3]), "x", member).Err())
	a.awaitDifference(t, CheckSeats, ids[3], "on seat 1")
	redistest.OK(t, a.Drain(soon(t), b.Node()))
	redistest.Receive(t, b.DrainRequested(), "the request to stop")
}
