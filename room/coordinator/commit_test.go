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

// secondJoin returns a coordinator of a room with one member, and the commit of a second
// one with the slot for it.
func secondJoin(t *testing.T, rdb *redis.Client, next, onlyQueue bool) (*Coordinator, *lockmgr.Slot, *store.Commit) {
	t.Helper()
	c := newCoordinator(t, rdb, Options{})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	slot, err := c.locks.Slot("42", c.store.KeysOf("42").Both...)
	redistest.OK(t, err)
	r, err := c.store.Load(t.Context(), "42")
	redistest.OK(t, err)
	redistest.OK(t, redistest.Err(r.Apply(room.Join{User: "b", Session: "s"}, room.Rules{}, room.Origin{})))
	h := store.Hold{Node: "n", Token: slot.Token(), OnlyQueue: onlyQueue}
	if next {
		h.Next = slot.Renew()
	}
	return c, slot, c.store.Prepare(r, c.store.KeysOf("42"), h)
}

// A commit hands the lock to the node that has waited longest. If none waits, the node's own
// next hold gets it, unless that only keeps its place in the line.
func TestCommit_HandsTheLockOn(t *testing.T) {
	const other = "42:00000000-0000-4000-8000-000000000000"
	for _, test := range []struct {
		next, onlyQueue bool   // the node wants another hold, and only if others wait
		waits           bool   // another node does
		holds           string // what the lock holds then; "next" is the node's next token
		at              store.NextToken
	}{
		{false, false, false, "", store.NextNowhere},
		{false, false, true, other, store.NextNowhere},
		{true, false, false, "next", store.NextHolds},
		{true, false, true, other, store.NextWaits},
		{true, true, false, "", store.NextNowhere},
		{true, true, true, other, store.NextWaits},
	} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			rdb := client()
			c, slot, commit := secondJoin(t, rdb, test.next, test.onlyQueue)
			rdb.Set(t.Context(), "LockRoom:42", commit.Token(), time.Minute)
			if test.waits {
				rdb.ZAdd(t.Context(), "LockRoom:42:Queue", redis.Z{Score: 1, Member: other})
			}
			at, _, err := c.store.Send(t.Context(), slot, commit)
			redistest.ErrorIf(t, err != nil || at != test.at, "%+v: the next token is %v, %v", test, at, err)
			got := rdb.Get(t.Context(), "LockRoom:42").Val()
			if got == slot.Token() {
				got = "next"
			}
			redistest.ErrorIf(t, got != test.holds, "%+v: the lock holds %q", test, got)
			var want []string
			if test.next && test.waits {
				want = []string{slot.Token()}
			}
			queue := rdb.ZRange(t.Context(), "LockRoom:42:Queue", 0, -1).Val()
			redistest.ErrorIf(t, !slices.Equal(queue, want), "%+v: the queue is %v", test, queue)
		})
	}
}

// All nodes have data in the form in which it was set: one compares what another one has stored.
func TestCommit_DataKeepsItsForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		a, b := newCoordinator(t, rdb, Options{}), newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		const data = `{"a":"\u0041\/","n":1.0e2}`
		told := make(chan string, 1)
		stop, err := b.Watch(t.Context(), "42", func(e *room.Event) {
			if e.Snapshot == nil {
				told <- string(e.Changes[0].Data)
			}
		})
		redistest.OK(t, err)
		defer stop()
		r := mustDo(t, a, "42", room.SetData{Data: data})
		s, err := b.Read(t.Context(), "42")
		if event := redistest.Receive(t, told, "the event"); err != nil || r.Data != data || s.Data != data || event != data {
			t.Errorf("%v: set %s, stored %s, told %s", err, r.Data, s.Data, event)
		}
	})
}

// What changes nothing needs no lock: a refusal is answered while another has it, by the room as it is.
func TestCommit_RefusalWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c, other := newCoordinator(t, redistest.MiniClient(t, mini), Options{}), newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		for _, r := range []*Coordinator{other, c} {
			mustDo(t, r, "42", room.Join{User: "a", Session: "s"})
		}
		rdb.Set(t.Context(), "LockRoom:42", "of the article", time.Minute)
		start := time.Now()
		_, err := c.Do(t.Context(), "42", room.Leave{User: "b", Session: "s"})
		redistest.ErrorIf(t, err == nil || time.Since(start) > 0, "%v after %v", err, time.Since(start))
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
