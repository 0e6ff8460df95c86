package coordinator

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// follower keeps the events of a watch.
type follower struct{ events chan *room.Event }

func follow(t *testing.T, c *Coordinator, id string) (*follower, func()) {
	t.Helper()
	f := &follower{make(chan *room.Event, 1000)}
	stop, err := c.Watch(t.Context(), id, func(e *room.Event) { f.events <- e })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return f, stop
}

func (f *follower) expect(t *testing.T, want string) *room.Event {
	t.Helper()
	e := await(t, f.events, want)
	got := fmt.Sprintf("%d<%d %s", e.Version, e.From, describeChanges(e.Changes))
	if e.Snapshot != nil {
		got = fmt.Sprintf("%d= %s", e.Version, describeUsers(e.Snapshot.Users()))
	}
	if got != want {
		t.Fatalf("told %q, want %q", got, want)
	}
	return e
}

func TestWatchersOnAllNodesAreToldInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		a, b := newCoordinator(t, client(), Options{}), newCoordinator(t, client(), Options{})
		onA, _ := follow(t, a, "42")
		onB, _ := follow(t, b, "42")
		second, stop := follow(t, b, "42")
		other, _ := follow(t, b, "43")
		mustDo(t, a, "42", room.Join("李四", "s1"))
		mustDo(t, b, "42", room.Join("张三", "s2"))
		mustDo(t, a, "42", room.Leave("李四", "s1"))
		for _, f := range []*follower{onA, onB, second} {
			f.expect(t, "1<0 +李四@0")
			f.expect(t, "2<1 +张三@1")
			f.expect(t, "3<2 -李四@0")
		}
		stop()
		mustDo(t, a, "42", room.Join("张三", "s3"))
		e := onB.expect(t, "4<3 ")
		if fate, _ := (room.Standing{User: "张三", Session: "s2", Epoch: e.Epoch, Version: 2}).After(e); fate != room.Replaced {
			t.Errorf("s2: %v", fate)
		}
		mustDo(t, a, "43", room.Join("王五", "s1"))
		other.expect(t, "1<0 +王五@0")
		if len(second.events) != 0 {
			t.Error("told after stop")
		}
	})
}

// The last watcher goes and a new one comes: it misses nothing from the moment
// its Watch returned.
func TestWatchAgain(t *testing.T) {
	// The real one only: with miniredis, what was committed before may still come.
	server := redistest.Start(t)
	a, b := newCoordinator(t, server.Client(), Options{}), newCoordinator(t, server.Client(), Options{})
	for i := range 50 {
		f, stop := follow(t, a, "42")
		mustDo(t, b, "42", room.Join("张三", "s"))
		f.expect(t, fmt.Sprintf("%d<%d +张三@0", 2*i+1, 2*i))
		stop()
		mustDo(t, b, "42", room.Leave("张三", "s"))
	}
}

// The pub/sub connection breaks and commits happen meanwhile: a snapshot makes
// up for them, and the events go on behind it.
func TestLostConnectionLeadsToASnapshot(t *testing.T) {
	server := redistest.Start(t)
	a, b := newCoordinator(t, server.Client(), Options{}), newCoordinator(t, server.Client(), Options{})
	f, _ := follow(t, a, "42")
	mustDo(t, b, "42", room.Join("李四", "s1"))
	f.expect(t, "1<0 +李四@0")
	if err := server.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "1= 李四@0")
	mustDo(t, b, "42", room.Join("张三", "s2"))
	f.expect(t, "2<1 +张三@1")
}

// An event got lost on the way.
func TestAGapLeadsToASnapshot(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, client(), Options{})
		f, _ := follow(t, c, "42")
		r := mustDo(t, c, "42", room.Join("李四", "s1"))
		f.expect(t, "1<0 +李四@0")
		rdb.HSet(t.Context(), "Room:42:Meta", "version", 7, "mark", "another commit's")
		mustDo(t, c, "42", room.Join("张三", "s2"))
		f.expect(t, "8= 李四@0 张三@1")

		// The first is known already. The second cannot be read, which leads to a snapshot.
		rdb.Publish(t.Context(), "Room:42:Events", `{"epoch":"`+r.Epoch+`","version":8}`)
		rdb.Publish(t.Context(), "Room:42:Events", `{"epoch":`)
		f.expect(t, "8= 李四@0 张三@1")
		mustDo(t, c, "42", room.Leave("李四", "s1"))
		f.expect(t, "9<8 -李四@0")
	})
}

// Redis came back empty: the room begins anew, and a snapshot says so.
func TestANewEpochLeadsToASnapshot(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, client(), Options{})
		f, _ := follow(t, c, "42")
		first := mustDo(t, c, "42", room.Join("李四", "s1"))
		f.expect(t, "1<0 +李四@0")
		rdb.FlushAll(t.Context())
		mustDo(t, c, "42", room.Join("张三", "s2"))
		if e := f.expect(t, "1= 张三@0"); e.Epoch == first.Epoch || e.Epoch == "" {
			t.Errorf("the epoch is %q, it was %q", e.Epoch, first.Epoch)
		}
	})
}

// changesAt returns the event of a version with those updates.
func changesAt(epoch string, version uint64, updates ...room.Update) *room.Event {
	return (&room.Commit{Position: room.Position{Epoch: epoch, Version: version}, Node: "writer", Updates: updates}).Event("42")
}

// Events that a snapshot stands for are not published after it, but they show who was
// replaced.
func TestHeldEventsShowWhoWasReplaced(t *testing.T) {
	f := newFeed("42")
	var told []*room.Event
	f.add(&watch{fn: func(e *room.Event) { told = append(told, e) }})
	f.receive(changesAt("e", 1, room.Update{Type: room.KindJoin, User: "a", Session: "s"}), 100)
	f.interrupt()
	f.receive(changesAt("e", 3, room.Update{Type: room.KindReplace, User: "a", Session: "new", Old: "s"}), 100)
	f.receive(changesAt("e", 4, room.Update{Type: room.KindLeave, User: "a"}), 100)
	f.receive(changesAt("e", 5, room.Update{Type: room.KindJoin, User: "b", Session: "s"}), 100)
	f.resume(room.NewRoom("42", room.Position{Epoch: "e", Version: 4}, map[string]room.Member{}), nil)
	if len(told) != 3 || told[1].Snapshot == nil || told[2].Version != 5 {
		t.Fatalf("told %+v", told)
	}
	for user, want := range map[string]room.Fate{"a": room.Replaced, "c": room.Removed} {
		if fate, _ := (room.Standing{User: user, Session: "s", Node: "n", Epoch: "e", Version: 1}).After(told[1]); fate != want {
			t.Errorf("%s: %v, want %v", user, fate, want)
		}
	}
}

// A node's new name is published at once, also while a snapshot is read, and needs none.
func TestANewNameIsToldAtOnce(t *testing.T) {
	f := newFeed("42")
	var told []*room.Event
	f.add(&watch{fn: func(e *room.Event) { told = append(told, e) }})
	f.receive(changesAt("e", 7), 100)
	f.interrupt()
	f.rejoin()
	if e := told[len(told)-1]; !e.Rejoin || e.Version != 7 || e.From != 7 || e.Snapshot != nil || len(e.Changes) != 0 {
		t.Errorf("told %+v", e)
	}
}

// What a feed holds back is bounded, in events and in bytes. What it drops leads to another
// snapshot.
func TestHeldEventsAreBounded(t *testing.T) {
	for name, size := range map[string]int{"events": 1, "bytes": maxHeldBytes / 10} {
		f := newFeed("42")
		var told []*room.Event
		f.add(&watch{fn: func(e *room.Event) { told = append(told, e) }})
		f.receive(changesAt("e", 1), size)
		f.interrupt()
		const last = 3 * maxHeld
		for v := range uint64(last - 1) {
			if f.receive(changesAt("e", v+2), size); f.held.bytes > maxHeldBytes || len(f.held.events) > maxHeld {
				t.Fatalf("%s: it holds %d events of %d bytes back", name, len(f.held.events), f.held.bytes)
			}
		}
		if gap, _ := f.resume(room.NewRoom("42", room.Position{Epoch: "e", Version: 5}, map[string]room.Member{}), nil); !gap {
			t.Fatalf("%s: no other snapshot is wanted, and told were %d events", name, len(told))
		}
		f.resume(room.NewRoom("42", room.Position{Epoch: "e", Version: last}, map[string]room.Member{}), nil)
		if e := told[len(told)-1]; e.Version != last {
			t.Errorf("%s: the last event is of version %d", name, e.Version)
		}
	}
}

// An event of an epoch that is over makes a node read a snapshot, and no more than that: no
// snapshot would ever explain it.
func TestALateEventOfAnotherEpoch(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb, spy := client(), client()
		var reads atomic.Int64
		spy.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, loadScript) {
				reads.Add(1)
			}
			return nil
		}})
		c, other := newCoordinator(t, spy, Options{}), newCoordinator(t, rdb, Options{})
		f, _ := follow(t, c, "42")
		mustDo(t, other, "42", room.Join("a", "s"))
		f.expect(t, "1<0 +a@0")
		for range 3 {
			rdb.Publish(t.Context(), "Room:42:Events", `{"epoch":"over","version":7,"mark":"m","node":"n","changes":[{"type":"join","user":"x","seat":5}]}`)
			f.expect(t, "1= a@0")
		}
		before := reads.Load()
		for i := range 20 { // events go through the same connection as the loop's snapshots would
			mustDo(t, other, "42", room.Join(fmt.Sprint("u", i), "s"))
			f.expect(t, fmt.Sprintf("%d<%d +u%d@%d", i+2, i+1, i, i+1))
		}
		if n := reads.Load(); before > 6 || n != before {
			t.Errorf("%d snapshots were read, and %d after the last event", before, n-before)
		}
	})
}
