package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// The holder stalls past its TTL before it writes, and another node joins
// meanwhile. The stale commit must change nothing and run again.
func TestStaleHolderChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		other := newCoordinator(t, client(), Options{})
		rdb.AddHook(redistest.Hook{Before: once(commitScript, func() error {
			rdb.Del(t.Context(), "LockRoom:42") // what the TTL does
			mustDo(t, other, "42", Join("李四", "s2"))
			return nil
		})})
		warm(t, rdb)
		stale := newCoordinator(t, rdb, Options{})
		r := mustDo(t, stale, "42", Join("张三", "s1"))
		if got := describeUsers(r.Users()); got != "李四@0 张三@1" || r.Version != 2 {
			t.Fatalf("after the stall: %s at version %d", got, r.Version)
		}
		if n := rdb.Exists(t.Context(), "LockRoom:42").Val(); n != 0 {
			t.Error("LockRoom:42 is left over")
		}
	})
}

// The same, but the other node holds the lock when the stale commit arrives: the
// lock must stay with it.
func TestStaleHolderLeavesTheLockAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		release := make(chan struct{})
		rdb.AddHook(redistest.Hook{
			Before: once(commitScript, func() error {
				rdb.Set(t.Context(), "LockRoom:42", "another", time.Minute)
				return nil
			}),
			After: once(commitScript, func() error {
				if got := rdb.Get(t.Context(), "LockRoom:42").Val(); got != "another" {
					t.Errorf("the lock holds %q after a stale commit", got)
				}
				if got := keysOf(t, rdb); !slices.Equal(got, []string{"LockRoom:42"}) {
					t.Errorf("a stale commit wrote: %v", got)
				}
				rdb.Del(t.Context(), "LockRoom:42")
				close(release)
				return nil
			}),
		})
		warm(t, rdb)
		r := mustDo(t, newCoordinator(t, rdb, Options{}), "42", Join("张三", "s1"))
		await(t, release, "the stale commit")
		if r.Version != 1 {
			t.Errorf("version %d", r.Version)
		}
	})
}

// The room moved on although the lock is still the writer's (Redis lost its last
// writes): the commit builds on what is not there any more, and must not write.
func TestACommitOnAnotherVersionChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		mustDo(t, newCoordinator(t, client(), Options{}), "42", Join("李四", "s2"))
		for i, field := range []string{"version", "epoch", "nothing else"} {
			rdb := client()
			rdb.AddHook(redistest.Hook{Before: once(commitScript, func() error {
				return rdb.HSet(t.Context(), "Room:42:Meta", field, 7, "mark", "another commit's").Err()
			})})
			warm(t, rdb)
			r := mustDo(t, newCoordinator(t, rdb, Options{}), "42", Join(fmt.Sprint("user", i), "s1"))
			if want := uint64(8 + i); r.Version != want || field == "epoch" && r.Epoch != "7" {
				t.Errorf("another %s: the commit went to version %d of epoch %s", field, r.Version, r.Epoch)
			}
		}
	})
}

// warm loads the scripts, so that the hooks see the EVALSHA that executes.
func warm(t *testing.T, rdb *redis.Client) {
	t.Helper()
	for _, s := range []*redis.Script{loadScript, takeScript, commitScript} {
		if err := s.Load(t.Context(), rdb).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// The commit is written but its reply is lost, and another node commits before
// it is sent again: it must count as written, once, at its own version.
func TestCommitIsExactlyOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		other := newCoordinator(t, client(), Options{})
		rdb.AddHook(redistest.Hook{After: once(commitScript, func() error {
			mustDo(t, other, "42", Join("李四", "s2"))
			return io.ErrUnexpectedEOF
		})})
		warm(t, rdb)
		r := mustDo(t, newCoordinator(t, rdb, Options{}), "42", Join("张三", "s1"))
		if got := describeUsers(r.Users()); r.Version != 1 || got != "张三@0" {
			t.Errorf("the commit reports %s at version %d", got, r.Version)
		}
		if s, _ := other.Read(t.Context(), "42"); s.Version != 2 || describeUsers(s.Users()) != "张三@0 李四@1" {
			t.Errorf("the room is %+v", s)
		}
	})
}

// Redis answers nothing any more when the commit has been sent: after a TTL the
// caller hears that the outcome is unknown.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		var gone, back atomic.Bool
		rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if !back.Load() && (gone.Load() || isScript(cmd, commitScript)) {
				gone.Store(true)
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		c := newCoordinator(t, rdb, Options{})
		start := time.Now()
		_, err := c.Do(t.Context(), "42", Join("张三", "s"))
		if !errors.Is(err, ErrUnknown) {
			t.Fatalf("join: %v", err)
		}
		if took := time.Since(start); took > lockmgr.DefaultTTL+100*time.Millisecond {
			t.Errorf("took %v to say so", took)
		}
		back.Store(true)
		if r := mustDo(t, c, "42", Join("李四", "s")); describeUsers(r.Users()) != "李四@0" {
			t.Errorf("afterwards the room holds %s", describeUsers(r.Users()))
		}
	})
}

func TestRedisIsAway(t *testing.T) {
	server := redistest.Start(t)
	c := newCoordinator(t, server.Client(), Options{})
	mustDo(t, c, "42", Join("李四", "s1"))
	server.Kill()
	if _, err := c.Do(t.Context(), "42", Join("张三", "s2")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("join: %v", err)
	}
	if _, err := c.Read(t.Context(), "42"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	if _, err := c.Watch(t.Context(), "42", func(*Event) {}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("watch: %v", err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ping: %v", err)
	}
	server.Restart()
	awaitUntil(t, patience, func() string { // the client looks once a second whether the server is back
		_, err := c.Do(t.Context(), "42", Join("张三", "s2"))
		switch {
		case errors.Is(err, ErrUnavailable):
			return err.Error()
		case err != nil:
			t.Fatal(err)
		}
		return ""
	})
}

// Redis takes no more writes between the lock and the commit: nothing is
// written, and the caller knows.
func TestRedisRefusesTheWrite(t *testing.T) {
	rdb := redistest.Start(t).Client()
	rdb.AddHook(redistest.Hook{Before: once(commitScript, func() error {
		return rdb.ConfigSet(t.Context(), "maxmemory", "1").Err()
	})})
	warm(t, rdb)
	c := newCoordinator(t, rdb, Options{})
	events := make(chan *Event, 9)
	stop, err := c.Watch(t.Context(), "42", func(e *Event) { events <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := c.Do(t.Context(), "42", Join("张三", "s")); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("join: %v", err)
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	if got := keysOf(t, rdb); len(got) > 0 {
		t.Errorf("%v were written or left over", got)
	}
	if r := mustDo(t, c, "42", Join("李四", "s")); describeUsers(r.Users()) != "李四@0" {
		t.Errorf("what was refused is written with the next commit: %s", describeUsers(r.Users()))
	}
	if e := await(t, events, "an event"); e.Version != 1 || len(e.Changes) != 1 {
		t.Errorf("the first event is %+v", e)
	}
}

// The room cannot be read: the lock is given back at once.
func TestUnreadableRoom(t *testing.T) {
	_, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{})
	rdb.HSet(t.Context(), "Room:42:Users", "张三", `{"seat":`)
	if _, err := c.Do(t.Context(), "42", Join("李四", "s")); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "张三") {
		t.Errorf("join: %v", err)
	}
	if n := rdb.Exists(t.Context(), "LockRoom:42").Val(); n != 0 {
		t.Error("LockRoom:42 is left over")
	}
}

// Redis has no memory left, and evicts nothing. What needs some is refused, and nothing
// of it is written; who leaves does so, locks are given back, and the node keeps its
// lease.
func TestOutOfMemory(t *testing.T) {
	for _, elide := range []bool{false, true} {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		rdb := server.Client()
		opts := Options{LockTTL: time.Second, NodeTTL: time.Second, ElideLock: elide}
		c, other := newCoordinator(t, server.Client(), opts), newCoordinator(t, server.Client(), opts)
		for i, node := range []*Coordinator{c, other} {
			for j := range 3 {
				mustDo(t, node, "42", Join(fmt.Sprint("user", i, j), "s"))
			}
		}
		if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		before := c.Node()
		until := rdb.ZScore(t.Context(), nodesKey, before).Val()
		for i, node := range []*Coordinator{c, other} {
			if _, err := node.Do(t.Context(), "42", Join("late", "s")); !errors.Is(err, ErrUnavailable) {
				t.Errorf("elide %v: join: %v", elide, err)
			}
			for j := range 2 {
				mustDo(t, node, "42", Leave(fmt.Sprint("user", i, j), "s"))
			}
			if _, err := node.Do(t.Context(), "new", Join("late", "s")); !errors.Is(err, ErrUnavailable) {
				t.Errorf("elide %v: join of a new room: %v", elide, err)
			}
		}
		if s, err := c.Read(t.Context(), "42"); err != nil || describeUsers(s.Users()) != "user0 2@2 user1 2@5" {
			t.Errorf("elide %v: the room holds %s, %v", elide, describeUsers(s.Users()), err)
		}
		if left := rdb.Keys(t.Context(), "LockRoom:*").Val(); slices.ContainsFunc(left, func(key string) bool { return !strings.HasSuffix(key, ":Fence") }) {
			t.Errorf("elide %v: %v are left", elide, left)
		}
		awaitUntil(t, patience, func() string {
			switch {
			case rdb.Exists(t.Context(), nodeKey(before)).Val() == 0:
				t.Fatalf("elide %v: the lease is over", elide)
			case rdb.ZScore(t.Context(), nodesKey, before).Val() == until:
				return "the lease is not prolonged"
			}
			return ""
		})
		rdb.ConfigSet(t.Context(), "maxmemory", "0")
		mustDo(t, c, "42", Join("late", "s"))
	}
}

// A node's first SUBSCRIBE fails. It follows the room all the same, soon.
func TestTheFirstSubscribeFails(t *testing.T) {
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
	mustDo(t, c, "42", Join("a", "s"))
	for i := 0; failed.Load() == 0; i++ {
		mustDo(t, other, "42", Join(fmt.Sprint("b", i), "s"))
		mustDo(t, c, "42", Join(fmt.Sprint("c", i), "s"))
	}
	i := 0
	awaitUntil(t, patience, func() string {
		i++
		mustDo(t, other, "42", Join(fmt.Sprint("d", i), "s"))
		r := mustDo(t, c, "42", Join(fmt.Sprint("e", i), "s"))
		c.mu.Lock()
		d := c.desks["42"]
		c.mu.Unlock()
		mustDo(t, other, "42", Leave(fmt.Sprint("d", i), "s"))
		d.events.mu.Lock()
		defer d.events.mu.Unlock()
		if n := len(d.events.events); n > 0 && d.events.events[n-1].Version >= r.Version {
			return ""
		}
		return "it does not follow the room"
	})
}

// Replies come late, also later than a lock lasts and an action waits. Nobody is lost,
// and nobody is told what is not so.
func TestRepliesThatComeLate(t *testing.T) {
	server := redistest.Start(t)
	opts := patient(Options{LockTTL: 300 * time.Millisecond, LockWait: 500 * time.Millisecond})
	var nodes []*Coordinator
	var punctual atomic.Bool
	for range 2 {
		proxy := redistest.StartProxy(t, server.Addr())
		var n atomic.Int64
		proxy.OnReply(func(args []string) {
			if i := n.Add(1); i%20 == 0 && !punctual.Load() {
				pause(t.Context(), time.Duration(i%7)*100*time.Millisecond)
			}
		})
		nodes = append(nodes, newCoordinator(t, proxy.Client(), opts))
	}
	c := startCrowd(t, nodes, []string{"42", "43"}, 3)
	c.goOn(40)
	punctual.Store(true)
	c.goOn(10)
	c.finish()
}
