package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// The holder stalls past its TTL before it writes, and another node joins
// meanwhile. The stale commit must change nothing and run again.
func TestHold_Stale(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		other := newCoordinator(t, client(), Options{})
		rdb.AddHook(redistest.Hook{Before: once(store.CommitScript, func() error {
			rdb.Del(t.Context(), "LockRoom:42") // what the TTL does
			mustDo(t, other, "42", room.Join{User: "李四", Session: "s2"})
			return nil
		})})
		warm(t, rdb)
		stale := newCoordinator(t, rdb, Options{})
		r := mustDo(t, stale, "42", room.Join{User: "张三", Session: "s1"})
		if got := describeUsers(r.Users()); got != "李四@0 张三@1" || r.Version != 2 {
			t.Fatalf("after the stall: %s at version %d", got, r.Version)
		}
		redistest.Equal(t, "LockRoom:42 is left over:", rdb.Exists(t.Context(), "LockRoom:42").Val(), 0)
	})
}

// The room moved on although the lock is still the writer's (Redis lost its last
// writes): the commit builds on what is not there any more, and must not write.
func TestCommit_OtherVersion(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		mustDo(t, newCoordinator(t, client(), Options{}), "42", room.Join{User: "李四", Session: "s2"})
		for i, field := range []string{"version", "epoch", "nothing else"} {
			rdb := client()
			rdb.AddHook(redistest.Hook{Before: once(store.CommitScript, func() error {
				return rdb.HSet(t.Context(), "Room:42:Meta", field, 7, "mark", "another commit's").Err()
			})})
			warm(t, rdb)
			r := mustDo(t, newCoordinator(t, rdb, Options{}), "42", room.Join{User: fmt.Sprint("user", i), Session: "s1"})
			if want := uint64(8 + i); r.Version != want || field == "epoch" && r.Epoch != "7" {
				t.Errorf("another %s: the commit went to version %d of epoch %s", field, r.Version, r.Epoch)
			}
		}
	})
}

// The same, when the commit is sent again because it was not answered: an earlier copy may
// still come. So a writer that had the lock gives it back at once, and writes under another token.
func TestCommit_SentAgainOnOtherVersion(t *testing.T) {
	for _, kind := range []string{"quiet", "unknown", "after another"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testSentAgain(t, kind == "unknown", kind == "after another") })
		})
	}
}

// unknown means that the room does not know the node, which then takes the lock.
func testSentAgain(t *testing.T, unknown, after bool) {
	c, rdb := onMini(t, Options{})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	if after { // so that the commit is of a hold that began before
		rdb.Set(t.Context(), "LockRoom:42", "another's", 10*time.Millisecond)
	}
	var tokens []string // of the commits
	rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		if !isScript(cmd, store.CommitScript) {
			return nil
		}
		if tokens = append(tokens, rdb.Get(t.Context(), "LockRoom:42").Val()); tokens[0] == "another's" {
			tokens = nil
			return nil
		}
		if len(tokens) > 1 {
			return nil
		}
		rdb.HSet(t.Context(), "Room:42:Meta", "version", 7, "mark", "another commit's")
		if unknown {
			rdb.HDel(t.Context(), "Room:42:Meta", "by:"+c.Node())
		}
		if after {
			return io.ErrUnexpectedEOF
		}
		return nil
	}, After: func(_ context.Context, cmd redis.Cmder) error {
		if isScript(cmd, store.CommitScript) && len(tokens) == 1 && !after {
			return io.ErrUnexpectedEOF // it may have taken the lock
		}
		return nil
	}})
	start := time.Now()
	expectRoom(t, mustDo(t, c, "42", room.Join{User: "b", Session: "s"}).Snapshot, "a@0 b@1", 8)
	took := time.Since(start)
	redistest.ErrorIf(t, took >= lockmgr.DefaultClaim, "it took %v: the lock was not given back", took)
	first, last := tokens[0], tokens[len(tokens)-1]
	want := []string{"", "", "", last} // the second has a token of its own, which buries the first, and so takes the lock when it asks again
	switch {
	case unknown: // it inherits the lock of the first; the last is of that hold
		want = []string{"", tokens[1], last, last}
	case after: // under none, but by the second it only reads the room
		want = []string{first, first, "", "", ""}
	}
	redistest.ErrorIf(t, first == last || !slices.Equal(tokens, want), "commits under %q", tokens)
}

// The commit is written but its reply is lost, and another node commits before
// it is sent again: it must count as written, once, at its own version.
func TestCommit_ExactlyOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		other := newCoordinator(t, client(), Options{})
		rdb.AddHook(redistest.Hook{After: once(store.CommitScript, func() error {
			mustDo(t, other, "42", room.Join{User: "李四", Session: "s2"})
			return io.ErrUnexpectedEOF
		})})
		warm(t, rdb)
		r := mustDo(t, newCoordinator(t, rdb, Options{}), "42", room.Join{User: "张三", Session: "s1"})
		got := describeUsers(r.Users())
		redistest.ErrorIf(t, r.Version != 1 || got != "张三@0", "the commit reports %s at version %d", got, r.Version)
		s, _ := other.Read(t.Context(), "42")
		redistest.ErrorIf(t, s.Version != 2 || describeUsers(s.Users()) != "张三@0 李四@1", "the room is %+v", s)
	})
}

// Redis answers nothing any more when the commit has been sent: after a TTL the
// caller hears that the outcome is unknown.
func TestCommit_UnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		var gone, back atomic.Bool
		rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if !back.Load() && (gone.Load() || isScript(cmd, store.CommitScript)) {
				gone.Store(true)
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		c := newCoordinator(t, rdb, Options{})
		start := time.Now()
		_, err := c.Do(t.Context(), "42", room.Join{User: "张三", Session: "s"})
		redistest.FatalIf(t, !errors.Is(err, room.ErrUnknown), "join: %v", err)
		took := time.Since(start)
		redistest.ErrorIf(t, took > lockmgr.DefaultTTL+100*time.Millisecond, "took %v to say so", took)
		back.Store(true)
		expectRoom(t, mustDo(t, c, "42", room.Join{User: "李四", Session: "s"}).Snapshot, "李四@0", 0)
	})
}

func TestRedis_Away(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	c := newCoordinator(t, server.Client(), Options{})
	mustDo(t, c, "42", room.Join{User: "李四", Session: "s1"})
	server.Kill()
	redistest.ErrorIs(t, "ping", c.Ping(t.Context()), room.ErrUnavailable)
	redistest.ErrorIs(t, "read", redistest.Err(c.Read(t.Context(), "42")), room.ErrUnavailable)
	if _, err := c.Watch(t.Context(), "42", func(*room.Event) {}); !errors.Is(err, room.ErrUnavailable) {
		t.Errorf("watch: %v", err)
	}
	// Last, when the node has noticed that its connections are gone: what is sent by one that dies has an unknown outcome.
	expectRefused(t, "join", c, "42", room.Join{User: "张三", Session: "s2"}, room.ErrUnavailable)
	server.Restart()
	awaitUntil(t, patience, func() string { // the client looks once a second whether the server is back
		_, err := c.Do(t.Context(), "42", room.Join{User: "张三", Session: "s2"})
		switch {
		case errors.Is(err, room.ErrUnavailable):
			return err.Error()
		case err != nil:
			t.Fatal(err)
		}
		return ""
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

// A room that is another one each time that it is written, under its lock: the action fails, nothing is written, and the
// lock is free again.
func TestHold_AlwaysStale(t *testing.T) {
	_, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	commits, others := 0, true
	rdb.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
		if others && isScript(cmd, store.CommitScript) {
			commits++
			return rdb.HSet(ctx, "Room:42:Meta", "mark", fmt.Sprint("another's ", commits)).Err()
		}
		return nil
	}})
	_, err := c.Do(soon(t), "42", room.Join{User: "b", Session: "s"})
	redistest.ErrorIf(t, !errors.Is(err, room.ErrUnavailable), "after %d commits: %v", commits, err)
	redistest.Equal(t, "commits", commits, maxConflicts+maxStale+1)
	n := rdb.Exists(t.Context(), "LockRoom:42", "LockRoom:42:Queue").Val()
	redistest.ErrorIf(t, n != 0, "the lock, or a place in its queue, is left over")
	others = false
	expectRoom(t, mustDo(t, c, "42", room.Join{User: "c", Session: "s"}).Snapshot, "a@0 c@1", 0)
}
