package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
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

// traced keeps what a Trace is told.
type traced struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (n *traced) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// take returns what was told since the last take.
func (n *traced) take() string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.lines = nil }()
	return strings.Join(n.lines, ", ")
}

func (n *traced) trace() *Trace {
	return &Trace{
		Done: func(kind room.Kind, err error, took time.Duration) {
			for _, known := range []error{room.ErrNotMember, room.ErrBusy, room.ErrUnknown, room.ErrInvalid} {
				if errors.Is(err, known) {
					err = known
				}
			}
			n.add("%s %v in %v", kind, err, took)
		},
		Acquired: func(waited time.Duration) { n.add("waited %v", waited) },
		Ended: func(held time.Duration, actions int, lost error) {
			n.add("held %v for %d, lost %v", held, actions, lost)
		},
		Reapplied: func() { n.add("reapplied") },
		Evicted:   func(members int, stopped bool) { n.add("evicted %d %v", members, stopped) },
		Resynced:  func() { n.add("resynced") },
		Renamed:   func() { n.add("renamed") },
	}
}

// tracedPair returns a coordinator with a Trace, another node, and what is called before each
// command of the first.
func tracedPair(t *testing.T, opts Options) (n *traced, c, other *Coordinator, rdb *redis.Client, before *atomic.Pointer[func(redis.Cmder) error]) {
	mini, rdb := redistest.Mini(t)
	before = new(atomic.Pointer[func(redis.Cmder) error])
	client := redistest.MiniClient(t, mini)
	client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		if do := before.Load(); do != nil {
			return (*do)(cmd)
		}
		return nil
	}})
	n = &traced{}
	opts.Trace = n.trace()
	c, other = newCoordinator(t, client, opts), newCoordinator(t, rdb, Options{})
	return n, c, other, rdb, before
}

// atCommit makes the hook do something at the next commit.
func atCommit(do func() error) *func(redis.Cmder) error {
	var done atomic.Bool
	fn := func(cmd redis.Cmder) error {
		if !isScript(cmd, store.CommitScript) || !done.CompareAndSwap(false, true) {
			return nil
		}
		return do()
	}
	return &fn
}

func TestTrace_ActionsAndHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, _, rdb, before := tracedPair(t, Options{LockWait: 2 * time.Second})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		redistest.Equal(t, "got", n.take(), "waited 0s, held 0s for 1, lost <nil>, join <nil> in 0s")
		_, err := c.Do(t.Context(), "42", room.Leave{User: "b", Session: "s"})
		redistest.ErrorIf(t, err == nil, "b has left")
		if _, err := c.Do(t.Context(), "", room.Leave{User: "b", Session: "s"}); err == nil {
			t.Error("a room without an id")
		}
		redistest.Equal(t, "got", n.take(), "waited 0s, held 0s for 1, lost <nil>, leave not a member in 0s, leave invalid input in 0s")
		// Somebody holds the lock for 1 s, and a commit takes 100 ms.
		rdb.Set(t.Context(), "LockRoom:42", "42:x", time.Second)
		commits := 0
		slow := func(cmd redis.Cmder) error {
			if isScript(cmd, store.CommitScript) {
				if commits++; commits == 2 { // the first finds that it has to wait
					time.Sleep(100 * time.Millisecond)
				}
			}
			return nil
		}
		before.Store(&slow)
		var wg sync.WaitGroup
		for _, user := range []string{"b", "c"} {
			wg.Go(func() { mustDo(t, c, "42", room.Join{User: user, Session: "s"}) })
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		redistest.Equal(t, "it is", c.Stats(), (Stats{Waiting: 2, Busy: 1}))
		wg.Wait()
		redistest.Equal(t, "got", n.take(), "waited 1s, held 100ms for 2, lost <nil>, join <nil> in 1.1s, join <nil> in 1.1s")
		redistest.Equal(t, "it is", c.Stats(), (Stats{Copies: 1}))
		rdb.Set(t.Context(), "LockRoom:42", "42:x", time.Minute)
		expectRefused(t, "leave", c, "42", room.Leave{User: "a", Session: "s"}, room.ErrBusy)
		redistest.Equal(t, "got", n.take(), "leave room is busy in 2s")
	})
}

func TestTrace_LostLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, _, rdb, before := tracedPair(t, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		n.take()
		rdb.Set(t.Context(), "LockRoom:42", "42:x", time.Second) // so that the hold begins before its commit
		steal := func(cmd redis.Cmder) error {
			if isScript(cmd, store.CommitScript) && rdb.Get(t.Context(), "LockRoom:42").Val() != "42:x" {
				before.Store(nil)
				return rdb.Del(t.Context(), "LockRoom:42").Err()
			}
			return nil
		}
		before.Store(&steal)
		mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
		redistest.Equal(t, "got", n.take(), "waited 1s, held 0s for 1, lost a stale commit was refused, waited 0s, held 0s for 1, lost <nil>, leave <nil> in 1s")
		before.Store(atCommit(func() error { return rdb.HSet(t.Context(), "Room:42:Meta", "version", 7, "mark", "of another").Err() }))
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		got := strings.ReplaceAll(n.take(), "resynced, ", "") // the feed missed a version, and may say so at any point
		if !strings.HasPrefix(got, "reapplied, reapplied, ") || !strings.Contains(got, "held 0s for 1, lost <nil>, join <nil> in "+eventPatience.String()) {
			t.Error(got)
		}
		away := func(redis.Cmder) error { return io.ErrUnexpectedEOF }
		before.Store(atCommit(func() error { before.Store(&away); return io.ErrUnexpectedEOF }))
		_, _ = c.Do(t.Context(), "42", room.Leave{User: "a", Session: "s"})
		before.Store(nil)
		if got = n.take(); !strings.Contains(got, fmt.Sprintf("held %v for 1, lost a hold ended without an answer, leave outcome is unknown", lockmgr.DefaultTTL)) {
			t.Error(got)
		}
	})
}

func TestTrace_Evictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, other, rdb, _ := tracedPair(t, Options{})
		redistest.OK(t, c.Start(t.Context()))
		for i, id := range []string{"42", "42", "43"} {
			mustDo(t, other, id, room.Join{User: fmt.Sprint("user", i), Session: "s"})
		}
		time.Sleep(DefaultNodeTTL)
		n.take()
		die(other)
		time.Sleep(2*DefaultNodeTTL + DefaultGrace)
		got := strings.Split(n.take(), ", ")
		got = slices.DeleteFunc(got, func(line string) bool { return !strings.HasPrefix(line, "evicted") })
		slices.Sort(got)
		redistest.ErrorIf(t, strings.Join(got, ", ") != "evicted 1 false, evicted 2 false", "%v", got)
		rdb.FlushAll(t.Context())
		time.Sleep(DefaultNodeTTL)
		redistest.Equal(t, "got", n.take(), "renamed")
	})
}

// An event that cannot be read is one that was missed.
func TestTrace_Resyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, other, rdb, _ := tracedPair(t, Options{})
		f, _ := follow(t, c, "42")
		mustDo(t, other, "42", room.Join{User: "a", Session: "s"})
		f.expect(t, "1<0 +a@0")
		redistest.Equal(t, "got", n.take(), "")
		rdb.Publish(t.Context(), "Room:42:Events", "?")
		f.expect(t, "1= a@0")
		redistest.Equal(t, "got", n.take(), "resynced")
	})
}
