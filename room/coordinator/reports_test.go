package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// reportOf waits for a report of a node that is as wanted.
func (c *Coordinator) reportOf(t *testing.T, node string, good func(*NodeReport) bool) *NodeReport {
	t.Helper()
	var last *NodeReport
	awaitUntil(t, patience, func() string {
		nodes, err := c.Nodes(soon(t))
		redistest.OK(t, err)
		for _, n := range nodes {
			if last = n.Report; n.Name == node && n.Report != nil && n.Age < 10*time.Second && good(n.Report) {
				return ""
			}
		}
		return fmt.Sprintf("the last report is %+v", last)
	})
	return last
}

// A node shows all nodes what it does; one without a Report is shown by its lease.
func TestReports(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		opts := reporting(4)
		opts.Address, opts.Report = "here:1", func(r *NodeReport) { r.Version = "v7" }
		c, silent := newCoordinator(t, client(), opts), newCoordinator(t, client(), Options{})
		for _, node := range []*Coordinator{c, silent} {
			redistest.OK(t, node.Start(soon(t)))
		}
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		expectRefused(t, "a taken seat", c, "42", room.Join{User: "c", Session: "s", Seat: new(0)}, room.ErrSeatTaken)
		r := silent.reportOf(t, c.Node(), func(r *NodeReport) bool { return r.Totals.Actions == 3 })
		if r.Node != c.Node() || r.Address != "here:1" || r.Version != "v7" || r.Totals.Commits != 2 || r.Totals.Failed != 0 ||
			r.Totals.LockHolds < 2 || r.P99.Action <= 0 || r.Load.Goroutines == 0 || r.Load.MemoryBytes == 0 || time.Since(time.UnixMilli(r.Started)) > time.Minute {
			t.Errorf("%+v", r)
		}
		nodes, err := c.Nodes(soon(t))
		redistest.FatalIf(t, err != nil || len(nodes) != 2, "%+v, %v", nodes, err)
		for _, n := range nodes {
			redistest.ErrorIf(t, n.Name == silent.Node() && n.Report != nil,
				"a node that says nothing: %+v", n.Report)
		}
	})
}

// Rooms whose lock somebody else holds are in the report, with those who wait.
func TestReports_WaitingRooms(t *testing.T) {
	t.Parallel() // it mostly waits
	rdb := redistest.Start(t).Client()
	c := newCoordinator(t, rdb, reporting(4))
	const held = 25
	for i := range held {
		id := fmt.Sprint("room-", i)
		redistest.OK(t, rdb.Set(t.Context(), unprefixed.LockPrefix()+id, "somebody else's", time.Minute).Err())
		for range 2 {
			go func() { _, _ = c.Do(t.Context(), id, room.Join{User: "a", Session: "s"}) }()
		}
	}
	redistest.OK(t, c.Start(soon(t)))
	r := c.reportOf(t, c.Node(), func(r *NodeReport) bool {
		return len(r.Waiting) == maxWaiting && r.Waiting[maxWaiting-1].MS > 500 && r.Load.Queue == 2*held
	})
	redistest.ErrorIf(t, !slices.IsSortedFunc(r.Waiting, func(a, b WaitingRoom) int { return int(b.MS - a.MS) }),
		"the longest wait is not first: %+v", r.Waiting)
	for _, w := range r.Waiting {
		redistest.ErrorIf(t, w.Actions != 2 || !strings.HasPrefix(w.Room, "room-") || w.MS > patience.Milliseconds(),
			"%+v", w)
	}
}

// Whom a drain is meant for hears of it, within two seconds, and nobody else, nor a node that takes
// its place.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		start := func() *Coordinator {
			c := newCoordinator(t, redistest.MiniClient(t, mini), reporting(4))
			redistest.OK(t, c.Start(t.Context()))
			return c
		}
		a, b := start(), start()
		redistest.ErrorIs(t, "a node that there is not", a.Drain(t.Context(), "nobody"), ErrNoNode)
		redistest.OK(t, a.Drain(t.Context(), b.Node()))
		asked := time.Now()
		redistest.Receive(t, b.DrainRequested(), "the request to stop")
		took := time.Since(asked)
		redistest.ErrorIf(t, took > 2*time.Second, "it took %v", took)
		redistest.OK(t, b.Close(t.Context()))
		next := start()
		time.Sleep(5 * time.Second)
		for name, c := range map[string]*Coordinator{"the other node": a, "the next one": next} {
			select {
			case <-c.DrainRequested():
				t.Errorf("%s was asked, too", name)
			default:
			}
		}
	})
}

// While Redis does not answer, nothing but reports is missing, and nobody is asked to stop.
func TestReports_Outage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		mini, rdb := redistest.Mini(t)
		rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if away.Load() && len(cmd.Args()) > 1 && strings.HasSuffix(fmt.Sprint(cmd.Args()[1]), ":Info") {
				return errors.New("no way to Redis")
			}
			return nil
		}})
		c := newCoordinator(t, rdb, reporting(4))
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		c.reportOf(t, c.Node(), func(*NodeReport) bool { return true })
		away.Store(true)
		plain := redistest.MiniClient(t, mini)
		awaitUntil(t, patience, func() string {
			if plain.Exists(t.Context(), unprefixed.NodeInfo(c.Node())).Val() > 0 {
				return "the report is still there"
			}
			return ""
		})
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		select {
		case <-c.DrainRequested():
			t.Fatal("nobody has asked for a drain")
		default:
		}
		away.Store(false)
		c.reportOf(t, c.Node(), func(r *NodeReport) bool { return r.Totals.Actions == 2 })
	})
}

// What is written under a node's name and is not its report does not stand for the node, and hides no other one.
func TestReports_OfOthers(t *testing.T) {
	rdb := redistest.Start(t).Client()
	opts := reporting(4)
	opts.Report = func(r *NodeReport) { r.Version = "v7" }
	c, victim := newCoordinator(t, rdb, opts), newCoordinator(t, rdb, Options{})
	for _, node := range []*Coordinator{c, victim} {
		redistest.OK(t, node.Start(soon(t)))
	}
	c.reportOf(t, c.Node(), func(r *NodeReport) bool { return r.Version == "v7" })
	mine := `{"node":"` + victim.Node() + `"`
	for name, forged := range map[string]string{
		"null": "null", "no name": "{}", "another node's": `{"node":"` + c.Node() + `"}`, "garbage": "\xff{",
		"nested": mine + `,"settings":` + strings.Repeat(`{"a":`, 20000), "long": mine + `,"address":"` + strings.Repeat("a", 10<<20) + `"}`,
	} {
		redistest.OK(t, rdb.Set(t.Context(), unprefixed.NodeInfo(victim.Node()), forged, 10*time.Second).Err())
		nodes, err := c.Nodes(soon(t))
		redistest.FatalIf(t, err != nil || len(nodes) != 2, "%s: %+v, %v", name, nodes, err)
		for _, n := range nodes {
			redistest.ErrorIf(t, (n.Name == victim.Node()) != (n.Report == nil),
				"%s: node %s has the report %.200s", name, n.Name, fmt.Sprintf("%+v", n.Report))
		}
	}
}

// A node says once with which settings others run, and nothing of those that have its own.
func TestNodes_OtherSettingsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		var log lines
		start := func(opts Options) *Coordinator {
			c := newCoordinator(t, redistest.MiniClient(t, mini), opts)
			redistest.OK(t, c.Start(t.Context()))
			return c
		}
		opts := Options{Rules: room.Rules{Seating: room.Capacity(4)}}
		start(Options{Rules: opts.Rules, Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log)))})
		start(opts)
		time.Sleep(time.Minute)
		if n := log.count("other settings"); n != 0 {
			t.Fatalf("%d lines about a node with the same settings", n)
		}
		other := Options{Address: "10.0.0.7:8080", LockTTL: 2 * time.Second, NodeTTL: 7 * time.Second, Grace: time.Minute, Rules: room.Rules{Duplicate: room.Reject, Name: "teams-2"}, Journal: 100}
		start(other)
		start(other)
		time.Sleep(time.Minute)
		want := "node-ttl 7s instead of 5s, grace 1m0s instead of 10s, lock-ttl 2s instead of 3s, capacity 65536 instead of 4, journal 100 instead of 0, rules teams-2 instead of standard, duplicate reject instead of replace"
		n := log.count("other settings")
		redistest.ErrorIf(t, n != 1 || log.count(want) != 1 || log.count("10.0.0.7:8080") != 1, "%d lines say so", n)
		rdb.Set(t.Context(), unprefixed.Lease("old"), "1 5000 3000 10.0.0.8:8080", time.Hour) // of an older version; before anybody can look for it
		redistest.OK(t, rdb.ZAdd(t.Context(), unprefixed.Nodes(""), redis.Z{Score: 1, Member: "old"}).Err())
		time.Sleep(10 * time.Second)
		redistest.ErrorIf(t, log.count("grace 3s instead of 10s\"") != 1,
			"nothing about a node that says only its grace")
	})
}

// Nodes lists who lives, with the settings that they run with.
func TestNodes(t *testing.T) {
	server := redistest.Start(t)
	c := newCoordinator(t, server.Client(), Options{})
	if nodes, err := c.Nodes(soon(t)); err != nil || len(nodes) > 0 {
		t.Errorf("before any has started: %v, %v", nodes, err)
	}
	other := newCoordinator(t, server.Client(), Options{Address: "10.0.0.7:8080", Grace: time.Second})
	redistest.OK(t, other.Start(soon(t)))
	server.Client().ZAdd(t.Context(), unprefixed.Nodes(""), redis.Z{Score: 1, Member: "dead"})
	nodes, err := c.Nodes(soon(t))
	if err != nil || len(nodes) != 1 || nodes[0].Name != other.Node() || nodes[0].Address != "10.0.0.7:8080" {
		t.Fatalf("%+v, %v", nodes, err)
	}
	redistest.ErrorIf(t, nodes[0].Settings != other.Settings(),
		"settings %+v, want %+v", nodes[0].Settings, other.Settings())
	redistest.Equal(t, "differences:", c.Settings().Differences(nodes[0].Settings), "grace 1s instead of 10s")
	server.Kill()
	if _, err := c.Nodes(soon(t)); err == nil || !strings.Contains(err.Error(), room.ErrUnavailable.Error()) {
		t.Errorf("without Redis: %v", err)
	}
}
