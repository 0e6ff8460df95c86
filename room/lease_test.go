package room

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// A node that was stalled until it was taken for dead writes nothing under its old
// name: it takes a new one, and has its sessions take that on.
func TestAStalledNodeFindsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		stalled := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "stalled"})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "other"})
		mustDo(t, stalled, "42", Join("a", "s"))
		mustDo(t, other, "42", Join("b", "s"))
		rejoin := make(chan *Event, 9)
		stop, err := stalled.Watch(t.Context(), "42", func(e *Event) {
			if e.Rejoin {
				rejoin <- e
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		// Its guards stand still, as all of it would under SIGSTOP.
		stalled.shut()
		stalled.guards.Wait()
		time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
		if s, _ := other.Read(t.Context(), "42"); describeUsers(s.Users()) != "b@1" {
			t.Fatalf("the room holds %s", describeUsers(s.Users()))
		}
		mustDo(t, stalled, "42", Join("c", "s").At(2))
		if stalled.Node() == "stalled" {
			t.Error("it kept its name")
		}
		await(t, rejoin, "being told to join again")
		mustDo(t, stalled, "42", Join("a", "s").At(0))
		for user, text := range rdb.HGetAll(t.Context(), "Room:42:Users").Val() {
			m, _ := parseMember(text)
			if user != "b" && m.Node != stalled.Node() {
				t.Errorf("%s is a member of %s", user, m.Node)
			}
		}
		noGhosts(t, rdb, stalled, other)
	})
}

// A member whose node has a new name, and that was not removed yet, is not removed
// later either if it joins again.
func TestJoiningAgainUnderANewName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{Node: "old"})
		mustDo(t, c, "42", Join("a", "s"))
		mustDo(t, c, "42", Join("b", "s"))
		rdb.Del(t.Context(), "Node:old")
		time.Sleep(DefaultNodeTTL) // it notices by itself
		if c.Node() == "old" {
			t.Fatal("it kept its name")
		}
		if r := mustDo(t, c, "42", Join("a", "s")); r.Seat != 0 || r.Version != 3 {
			t.Errorf("%+v", r)
		}
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		if s, _ := c.Read(t.Context(), "42"); describeUsers(s.Users()) != "a@0" {
			t.Errorf("the room holds %s", describeUsers(s.Users()))
		}
		noGhosts(t, rdb, c)
	})
}

// While Redis is away a node does not take its name for valid, and writes nothing.
func TestNoLeaseNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{})
		mustDo(t, c, "42", Join("a", "s"))
		away := true
		var mu sync.Mutex
		rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			mu.Lock()
			defer mu.Unlock()
			if away && isScript(cmd, leaseScript) {
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		time.Sleep(2 * DefaultNodeTTL)
		if _, err := c.Do(t.Context(), "42", Join("b", "s")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("without a lease: %v", err)
		}
		mu.Lock()
		away = false
		mu.Unlock()
		mustDo(t, c, "42", Join("b", "s"))
	})
}

// One caller who does not wait for long does not end the attempt that all wait for.
func TestAnAttemptOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		var attempts atomic.Int32
		rdb.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, leaseScript) {
				attempts.Add(1)
				pause(ctx, time.Second) // Redis is slow
			}
			return ctx.Err()
		}})
		if err := leaseScript.Load(t.Context(), rdb).Err(); err != nil {
			t.Fatal(err)
		}
		c := newCoordinator(t, rdb, Options{})
		hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := c.Do(hurried, "42", Join("a", "s")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who does not wait: %v", err)
		}
		mustDo(t, c, "42", Join("b", "s"))
		if n := attempts.Load(); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A failover loses that the node may have members in a room, and keeps the members,
// which are on another master. The node notes it again, so they leave when it dies.
func TestALostRoomIsNotedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustDo(t, c, "42", Join("a", "s"))
		mustDo(t, c, "43", Join("a", "s"))
		mustDo(t, c, "44", Join("a", "s"))
		rooms := nodeRoomsKey(c.Node())
		rdb.SRem(t.Context(), rooms, "42", "43")
		time.Sleep(DefaultNodeTTL)
		if noted := rdb.SMembers(t.Context(), rooms).Val(); len(noted) != 3 {
			t.Errorf("it is noted in %v", noted)
		}
		die(c)
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		for _, room := range []string{"42", "43", "44"} {
			if s, _ := other.Read(t.Context(), room); s.Count() != 0 {
				t.Errorf("room %s holds %s", room, describeUsers(s.Users()))
			}
		}
		noGhosts(t, rdb, other)
	})
}

// A node that is closed gives its members the grace, and no more.
func TestACloseBeginsTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		closed := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustDo(t, closed, "42", Join("a", "s"))
		mustDo(t, closed, "42", Join("b", "s"))
		if err := closed.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustDo(t, other, "42", Join("b", "elsewhere"))
		time.Sleep(DefaultGrace - time.Second)
		if s, _ := other.Read(t.Context(), "42"); describeUsers(s.Users()) != "a@0 b@1" || s.Version != 3 {
			t.Errorf("within the grace: %s at version %d", describeUsers(s.Users()), s.Version)
		}
		time.Sleep(1 + DefaultNodeTTL)
		if s, _ := other.Read(t.Context(), "42"); describeUsers(s.Users()) != "b@1" {
			t.Errorf("after the grace: %s", describeUsers(s.Users()))
		}
		noGhosts(t, rdb, other)
	})
}

// A coordinator that is closed takes no lease any more.
func TestNoLeaseAfterClose(t *testing.T) {
	_, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("start: %v", err)
	}
	if left := rdb.Keys(t.Context(), "Node*").Val(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// A failover takes the room back to an earlier version. What the lost versions were
// comes again, so it is another epoch: by the next action, or if there is none by
// whoever notices.
func TestAVersionThatGoesBackIsANewEpoch(t *testing.T) {
	for _, byAction := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			_, rdb := redistest.Mini(t)
			c := newCoordinator(t, rdb, Options{})
			var last *Event
			var told int
			var mu sync.Mutex
			stop, err := c.Watch(t.Context(), "42", func(e *Event) {
				mu.Lock()
				defer mu.Unlock()
				if told++; told > 1000 { // virtual time stands still meanwhile: nothing else would end it
					panic("a watcher is told without end")
				}
				last = e
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			first := mustDo(t, c, "42", Join("a", "s"))
			old := rdb.HGetAll(t.Context(), "Room:42:Meta").Val()
			mustDo(t, c, "42", Join("b", "s"))
			mustDo(t, c, "42", Join("c", "s"))
			rdb.HDel(t.Context(), "Room:42:Users", "b", "c")
			rdb.HSet(t.Context(), "Room:42:Meta", old)
			if byAction {
				if r := mustDo(t, c, "42", Join("d", "s")); r.Epoch == first.Epoch || r.Version != 2 || describeUsers(r.Users()) != "a@0 d@1" {
					t.Errorf("%s in epoch %s at version %d", describeUsers(r.Users()), r.Epoch, r.Version)
				}
			} else { // the connection for events was lost in the failover
				c.feeds.mu.Lock()
				f := c.feeds.rooms["42"]
				c.feeds.mu.Unlock()
				c.feeds.sawGap(f, f.interrupt())
			}
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if last.Snapshot == nil || last.Epoch == first.Epoch || last.Version != 2 {
				t.Errorf("by action %v: the last event is %+v", byAction, last)
			}
		})
	}
}

// A session that comes back unasked does not push out a newer one, nor one that may
// come back.
func TestJoinAgain(t *testing.T) {
	r := NewRoom("42", "e", 1, map[string]Member{"a": {Seat: 0, Session: "new"}, "b": {Seat: 1, Session: detached + "new"}, "d": {Seat: 2, Session: detached + "mine"}})
	for user, want := range map[string]error{"a": ErrDuplicate, "b": ErrDuplicate, "c": nil, "d": nil} {
		if _, err := r.Apply(Join(user, "mine").Again(), Rules{}); !errors.Is(err, want) {
			t.Errorf("%s: %v", user, err)
		}
	}
}
