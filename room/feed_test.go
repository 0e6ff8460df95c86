package room

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// follower keeps what a watcher is told.
type follower struct{ events chan *Event }

func follow(t *testing.T, c *Coordinator, id string) (*follower, func()) {
	t.Helper()
	f := &follower{make(chan *Event, 1000)}
	stop, err := c.Watch(t.Context(), id, func(e *Event) { f.events <- e })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return f, stop
}

func (f *follower) expect(t *testing.T, want string) *Event {
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
		mustDo(t, a, "42", Join("李四", "s1"))
		mustDo(t, b, "42", Join("张三", "s2"))
		mustDo(t, a, "42", Leave("李四", "s1"))
		for _, f := range []*follower{onA, onB, second} {
			f.expect(t, "1<0 +李四@0")
			f.expect(t, "2<1 +张三@1")
			f.expect(t, "3<2 -李四@0")
		}
		stop()
		mustDo(t, a, "42", Join("张三", "s3"))
		e := onB.expect(t, "4<3 ")
		if fate, _ := (Standing{User: "张三", Session: "s2", Epoch: e.Epoch, Version: 2}).After(e); fate != Replaced {
			t.Errorf("s2: %v", fate)
		}
		mustDo(t, a, "43", Join("王五", "s1"))
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
		mustDo(t, b, "42", Join("张三", "s"))
		f.expect(t, fmt.Sprintf("%d<%d +张三@0", 2*i+1, 2*i))
		stop()
		mustDo(t, b, "42", Leave("张三", "s"))
	}
}

// The pub/sub connection breaks and commits happen meanwhile: a snapshot makes
// up for them, and the events go on behind it.
func TestLostConnectionLeadsToASnapshot(t *testing.T) {
	server := redistest.Start(t)
	a, b := newCoordinator(t, server.Client(), Options{}), newCoordinator(t, server.Client(), Options{})
	f, _ := follow(t, a, "42")
	mustDo(t, b, "42", Join("李四", "s1"))
	f.expect(t, "1<0 +李四@0")
	if err := server.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "1= 李四@0")
	mustDo(t, b, "42", Join("张三", "s2"))
	f.expect(t, "2<1 +张三@1")
}

// An event got lost on the way.
func TestAGapLeadsToASnapshot(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, client(), Options{})
		f, _ := follow(t, c, "42")
		r := mustDo(t, c, "42", Join("李四", "s1"))
		f.expect(t, "1<0 +李四@0")
		rdb.HSet(t.Context(), "Room:42:Meta", "version", 7, "mark", "another commit's")
		mustDo(t, c, "42", Join("张三", "s2"))
		f.expect(t, "8= 李四@0 张三@1")

		// Told already: nothing. Not readable: a snapshot.
		rdb.Publish(t.Context(), "Room:42:Events", `{"epoch":"`+r.Epoch+`","version":8}`)
		rdb.Publish(t.Context(), "Room:42:Events", `{"epoch":`)
		f.expect(t, "8= 李四@0 张三@1")
		mustDo(t, c, "42", Leave("李四", "s1"))
		f.expect(t, "9<8 -李四@0")
	})
}

// Redis came back empty: the room begins anew, and a snapshot says so.
func TestANewEpochLeadsToASnapshot(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, client(), Options{})
		f, _ := follow(t, c, "42")
		first := mustDo(t, c, "42", Join("李四", "s1"))
		f.expect(t, "1<0 +李四@0")
		rdb.FlushAll(t.Context())
		mustDo(t, c, "42", Join("张三", "s2"))
		if e := f.expect(t, "1= 张三@0"); e.Epoch == first.Epoch || e.Epoch == "" {
			t.Errorf("the epoch is %q, it was %q", e.Epoch, first.Epoch)
		}
	})
}

// Events that come while a snapshot is read are not told if it stands for them; but they
// show who was replaced, and that counts.
func TestHeldEventsShowWhoWasReplaced(t *testing.T) {
	f := newFeed("42")
	var told []*Event
	f.add(&watch{fn: func(e *Event) { told = append(told, e) }})
	f.receive(changesAt("e", 1, wireChange{Type: KindJoin, User: "a", Session: "s"}))
	f.interrupt()
	f.receive(changesAt("e", 3, wireChange{Type: kindReplace, User: "a", Session: "new", Old: "s"}))
	f.receive(changesAt("e", 4, wireChange{Type: KindLeave, User: "a"}))
	f.receive(changesAt("e", 5, wireChange{Type: KindJoin, User: "b", Session: "s"}))
	f.resume(NewRoom("42", "e", 4, map[string]Member{}), nil)
	if len(told) != 3 || told[1].Snapshot == nil || told[2].Version != 5 {
		t.Fatalf("told %+v", told)
	}
	for user, want := range map[string]Fate{"a": Replaced, "c": Removed} {
		if fate, _ := (Standing{User: user, Session: "s", Node: "n", Epoch: "e", Version: 1}).After(told[1]); fate != want {
			t.Errorf("%s: %v, want %v", user, fate, want)
		}
	}
}

// A node's new name is told at once, also while a snapshot is read, and asks for none.
func TestANewNameIsToldAtOnce(t *testing.T) {
	f := newFeed("42")
	var told []*Event
	f.add(&watch{fn: func(e *Event) { told = append(told, e) }})
	f.receive(changesAt("e", 7))
	f.interrupt()
	f.renewed()
	if e := told[len(told)-1]; !e.Rejoin || e.Version != 7 || e.From != 7 || e.Snapshot != nil || len(e.Changes) != 0 {
		t.Errorf("told %+v", e)
	}
}
