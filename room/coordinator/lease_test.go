package coordinator

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

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A node that was stalled until it was believed dead writes nothing under its old name. It
// takes a new one, and its sessions join again.
func TestAStalledNodeFindsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		stalled := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "stalled"})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{Node: "other"})
		mustDo(t, stalled, "42", room.Join("a", "s"))
		mustDo(t, other, "42", room.Join("b", "s"))
		rejoin := make(chan *room.Event, 9)
		stop, err := stalled.Watch(t.Context(), "42", func(e *room.Event) {
			if e.Rejoin {
				rejoin <- e
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		// Its loops stop, as all of it would under SIGSTOP.
		stalled.lifetime.shut()
		stalled.membership.loops.Wait()
		time.Sleep(DefaultNodeTTL + DefaultGrace + DefaultNodeTTL)
		if s, _ := other.Read(t.Context(), "42"); describeUsers(s.Users()) != "b@1" {
			t.Fatalf("the room holds %s", describeUsers(s.Users()))
		}
		mustDo(t, stalled, "42", room.Join("c", "s").At(2))
		if stalled.Node() == "stalled" {
			t.Error("it kept its name")
		}
		await(t, rejoin, "being told to join again")
		mustDo(t, stalled, "42", room.Join("a", "s").At(0))
		for user, text := range rdb.HGetAll(t.Context(), "Room:42:Users").Val() {
			m, _ := parseMember(text)
			if user != "b" && m.Node != stalled.Node() {
				t.Errorf("%s is a member of %s", user, m.Node)
			}
		}
		noOtherNodes(t, rdb, stalled, other)
	})
}

// A member who joins again under the node's new name in time is not removed with the old
// one.
func TestJoiningAgainUnderANewName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{Node: "old"})
		mustDo(t, c, "42", room.Join("a", "s"))
		mustDo(t, c, "42", room.Join("b", "s"))
		rdb.Del(t.Context(), "Node:old")
		time.Sleep(DefaultNodeTTL) // it notices by itself
		if c.Node() == "old" {
			t.Fatal("it kept its name")
		}
		if r := mustDo(t, c, "42", room.Join("a", "s")); r.Seat != 0 || r.Version != 3 {
			t.Errorf("%+v", r)
		}
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		if s, _ := c.Read(t.Context(), "42"); describeUsers(s.Users()) != "a@0" {
			t.Errorf("the room holds %s", describeUsers(s.Users()))
		}
		noOtherNodes(t, rdb, c)
	})
}

// A node whose lease is over writes nothing until it has one again.
func TestNoLeaseNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{})
		mustDo(t, c, "42", room.Join("a", "s"))
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
		if _, err := c.Do(t.Context(), "42", room.Join("b", "s")); !errors.Is(err, room.ErrUnavailable) {
			t.Errorf("without a lease: %v", err)
		}
		mu.Lock()
		away = false
		mu.Unlock()
		mustDo(t, c, "42", room.Join("b", "s"))
	})
}

// A caller that gives up does not end the attempt that others wait for.
func TestAnAttemptOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		var attempts atomic.Int32
		rdb.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if isScript(cmd, leaseScript) {
				attempts.Add(1)
				_ = redisconn.Pause(ctx, time.Second) // Redis is slow
			}
			return ctx.Err()
		}})
		if err := leaseScript.Load(t.Context(), rdb).Err(); err != nil {
			t.Fatal(err)
		}
		c := newCoordinator(t, rdb, Options{})
		hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := c.Do(hurried, "42", room.Join("a", "s")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who does not wait: %v", err)
		}
		mustDo(t, c, "42", room.Join("b", "s"))
		if n := attempts.Load(); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A failover loses the record that the node may have members in a room, and keeps the
// members, which are on another master. The node records it again, so they are removed when
// it dies.
func TestALostRoomIsRecordedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustDo(t, c, "42", room.Join("a", "s"))
		mustDo(t, c, "43", room.Join("a", "s"))
		mustDo(t, c, "44", room.Join("a", "s"))
		rooms := nodeRoomsKey(c.Node())
		rdb.SRem(t.Context(), rooms, "42", "43")
		time.Sleep(DefaultNodeTTL)
		if recorded := rdb.SMembers(t.Context(), rooms).Val(); len(recorded) != 3 {
			t.Errorf("it is recorded in %v", recorded)
		}
		die(c)
		time.Sleep(2 * (DefaultNodeTTL + DefaultGrace))
		for _, id := range []string{"42", "43", "44"} {
			if s, _ := other.Read(t.Context(), id); s.Count() != 0 {
				t.Errorf("room %s holds %s", id, describeUsers(s.Users()))
			}
		}
		noOtherNodes(t, rdb, other)
	})
}

// The members of a node that is closed have the grace, and no more.
func TestACloseBeginsTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		closed := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustDo(t, closed, "42", room.Join("a", "s"))
		mustDo(t, closed, "42", room.Join("b", "s"))
		if err := closed.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustDo(t, other, "42", room.Join("b", "elsewhere"))
		time.Sleep(DefaultGrace - time.Second)
		if s, _ := other.Read(t.Context(), "42"); describeUsers(s.Users()) != "a@0 b@1" || s.Version != 3 {
			t.Errorf("within the grace: %s at version %d", describeUsers(s.Users()), s.Version)
		}
		time.Sleep(1 + DefaultNodeTTL)
		if s, _ := other.Read(t.Context(), "42"); describeUsers(s.Users()) != "b@1" {
			t.Errorf("after the grace: %s", describeUsers(s.Users()))
		}
		noOtherNodes(t, rdb, other)
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
	if err := c.Start(t.Context()); !errors.Is(err, room.ErrClosed) {
		t.Errorf("start: %v", err)
	}
	if left := rdb.Keys(t.Context(), "Node*").Val(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}
