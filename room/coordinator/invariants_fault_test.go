package coordinator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redistest"
	"roomd/room"
)

// watchesAll has each of the nodes watch all of the rooms.
func watchesAll(t *testing.T, nodes []*Coordinator, rooms []string) {
	t.Helper()
	for _, node := range nodes {
		for _, id := range rooms {
			stop, err := node.Watch(soon(t), id, func(*room.Event) {})
			if err != nil {
				t.Fatal(err)
			}
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
		for redisconn.Pause(ctx, 20*time.Millisecond) == nil {
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

// Failovers lose commits, connections break and events come late: nodes put that right before it
// counts as a difference.
func TestChecksFindNothingThroughFailovers(t *testing.T) {
	t.Parallel() // it mostly waits
	sentinel, rooms := redistest.StartSentinel(t), []string{"42", "43", "44"}
	var nodes []*Coordinator
	for range 2 {
		nodes = append(nodes, newCoordinator(t, sentinel.Client(), patient(reporting(0))))
	}
	watchesAll(t, nodes, rooms)
	c := startCrowd(t, nodes, rooms, 3)
	stop := findNothing(t, nodes)
	c.goOn(20)
	c.forgives()
	sentinel.Failover()
	c.goOn(10)
	nodes[0].awaitChecks(t, 6) // longer than confirmAfter
	nodes[1].awaitChecks(t, 3)
	old := sentinel.Primary()
	sentinel.KillPrimary()
	c.goOn(10)
	old.Restart()
	sentinel.WaitReady()
	nodes[0].awaitChecks(t, 6) // longer than confirmAfter
	nodes[1].awaitChecks(t, 3)
	stop()
	c.finish()
}

// On Cluster the keys of what nodes say of themselves are on the masters of their homes.
func TestReportsAndChecksOnCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	cluster := redistest.StartCluster(t)
	a, b := newCoordinator(t, cluster.Client(), reporting(4)), newCoordinator(t, cluster.Client(), reporting(4))
	ids, _ := roomsOf(t, cluster, 1, 2)
	watchesAll(t, []*Coordinator{a}, ids)
	for _, id := range ids {
		for i, node := range []*Coordinator{a, b} {
			mustDo(t, node, id, room.Join(fmt.Sprint("user", i), "s"))
		}
	}
	if _, _, err := b.Move(soon(t), ids[0], ids[1], "s", "user1"); err != nil {
		t.Error(err)
	}
	if r := a.reportOf(t, b.Node(), func(r *NodeReport) bool { return r.Totals.Commits > 0 }); r.Node != b.Node() {
		t.Errorf("%+v", r)
	}
	b.reportOf(t, a.Node(), func(r *NodeReport) bool { return r.Checks[CheckCopies].Checked > 3*uint64(len(ids)) })
	for check, found := range a.Checks() {
		if found.Rooms > 0 {
			t.Errorf("%s: %+v", check, found)
		}
	}
	member := `{"seat":1,"session":"s","node":"n","at":1}`
	if err := cluster.Client().HSet(t.Context(), usersOf(ids[3]), "x", member).Err(); err != nil {
		t.Fatal(err)
	}
	a.awaitDifference(t, CheckSeats, ids[3], "on seat 1")
	if err := a.Drain(soon(t), b.Node()); err != nil {
		t.Fatal(err)
	}
	await(t, b.DrainRequested(), "the request to stop")
}
