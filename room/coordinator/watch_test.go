package coordinator

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// follower keeps the events of a watch.
type follower struct{ events chan *room.Event }

func follow(t *testing.T, c *Coordinator, id string) (*follower, func()) {
	t.Helper()
	f := &follower{make(chan *room.Event, 1000)}
	stop, err := c.Watch(t.Context(), id, func(e *room.Event) { f.events <- e })
	redistest.OK(t, err)
	t.Cleanup(stop)
	return f, stop
}

func (f *follower) expect(t *testing.T, want string) *room.Event {
	t.Helper()
	e := redistest.Receive(t, f.events, want)
	got := fmt.Sprintf("%d<%d %s", e.Version, e.From, describeChanges(e.Changes))
	if e.Snapshot != nil {
		got = fmt.Sprintf("%d= %s", e.Version, describeUsers(e.Snapshot.Users()))
	}
	redistest.FatalIf(t, got != want, "told %q, want %q", got, want)
	return e
}

// The last watcher goes and a new one comes: it misses nothing from the moment
// its Watch returned.
func TestWatch_Again(t *testing.T) {
	// The real one only: with miniredis, what was committed before may still come.
	server := redistest.Start(t)
	a, b := newCoordinator(t, server.Client(), Options{}), newCoordinator(t, server.Client(), Options{})
	for i := range 50 {
		f, stop := follow(t, a, "42")
		mustDo(t, b, "42", room.Join{User: "张三", Session: "s"})
		f.expect(t, fmt.Sprintf("%d<%d +张三@0", 2*i+1, 2*i))
		stop()
		mustDo(t, b, "42", room.Leave{User: "张三", Session: "s"})
	}
}

// An event of an epoch that is over makes a node read a snapshot, and no more than that: no
// snapshot would ever explain it.
func TestWatch_LateEventOfAnotherEpoch(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb, spy := client(), client()
		var reads atomic.Int64
		beforeScript(spy, store.LoadScript, func() error {
			reads.Add(1)
			return nil
		})
		c, other := newCoordinator(t, spy, Options{}), newCoordinator(t, rdb, Options{})
		f, _ := follow(t, c, "42")
		mustDo(t, other, "42", room.Join{User: "a", Session: "s"})
		f.expect(t, "1<0 +a@0")
		for range 3 {
			rdb.Publish(t.Context(), "Room:42:Events", `{"epoch":"over","version":7,"mark":"m","node":"n","changes":[{"type":"join","user":"x","seat":5}]}`)
			f.expect(t, "1= a@0")
		}
		before := reads.Load()
		for i := range 20 { // events go through the same connection as the loop's snapshots would
			mustDo(t, other, "42", room.Join{User: fmt.Sprint("u", i), Session: "s"})
			f.expect(t, fmt.Sprintf("%d<%d +u%d@%d", i+2, i+1, i, i+1))
		}
		if n := reads.Load(); before > 6 || n != before {
			t.Errorf("%d snapshots were read, and %d after the last event", before, n-before)
		}
	})
}

// A node's first SUBSCRIBE fails. The node tries again and follows the room.
func TestWatch_FirstSubscribeFails(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	var failed atomic.Int32
	first := redistest.Once("SUBSCRIBE", redistest.DropRequest)
	proxy.OnRequest(func(args []string) redistest.Action {
		action := first(args)
		if action != redistest.Pass {
			failed.Add(1)
		}
		return action
	})
	c, other := newCoordinator(t, proxy.Client(), Options{}), newCoordinator(t, server.Client(), Options{})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	for i := 0; failed.Load() == 0; i++ {
		mustDo(t, other, "42", room.Join{User: fmt.Sprint("b", i), Session: "s"})
		mustDo(t, c, "42", room.Join{User: fmt.Sprint("c", i), Session: "s"})
	}
	i := 0
	awaitUntil(t, patience, func() string {
		i++
		mustDo(t, other, "42", room.Join{User: fmt.Sprint("d", i), Session: "s"})
		r := mustDo(t, c, "42", room.Join{User: fmt.Sprint("e", i), Session: "s"})
		mustDo(t, other, "42", room.Leave{User: fmt.Sprint("d", i), Session: "s"})
		if c.feeds.At("42").Version >= r.Version {
			return ""
		}
		return "it does not follow the room"
	})
}
