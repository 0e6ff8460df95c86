package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/keys"
	"roomd/room/coordinator/internal/store"
	"roomd/room/coordinator/internal/work"
)

const (
	copyIdle, emptyCopySize       = work.CopyIdle, work.EmptyCopySize
	callerPatience, eventPatience = work.CallerPatience, work.EventPatience
	maxConflicts, maxStale        = work.MaxConflicts, work.MaxStale
)

const (
	// patience is how long a test waits for what it expects, and longPatience where
	// servers have to elect a master first.
	patience     = 15 * time.Second
	longPatience = time.Minute
)

// unprefixed makes the names of a deployment without a prefix, on a Redis that is no Cluster.
var unprefixed keys.Space

// soon returns a context that ends when a test has waited for long enough.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("it has not come about within %v", patience))
	t.Cleanup(cancel)
	return ctx
}

// awaitUntil waits until look returns "", which otherwise says what is missing.
func awaitUntil(t testing.TB, patience time.Duration, look func() (missing string)) {
	t.Helper()
	for start := time.Now(); ; {
		missing := look()
		if missing == "" {
			return
		}
		redistest.FatalIf(t, time.Since(start) > patience, "after %v: %s", patience, missing)
		_ = pause.For(t.Context(), 10*time.Millisecond)
	}
}

func describeUsers(users []room.Occupant) string {
	list := make([]string, len(users))
	for i, u := range users {
		list[i] = fmt.Sprintf("%s@%d", u.User, u.Seat)
	}
	return strings.Join(list, " ")
}

// describeChanges returns what happened to members.
func describeChanges(changes []room.Change) string {
	var list []string
	for _, c := range changes {
		sign := "+"
		switch c.Type {
		case "settings":
			continue
		case room.KindLeave:
			sign = "-"
		}
		list = append(list, fmt.Sprintf("%s%s@%d", sign, c.User, c.Seat))
	}
	return strings.Join(list, " ")
}

func newCoordinator(t testing.TB, client redis.UniversalClient, opts Options) *Coordinator {
	t.Helper()
	c, err := New(client, opts)
	redistest.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		redistest.OK(t, c.Close(ctx))
	})
	return c
}

// onMini returns a coordinator on a Redis in this process, and a client of that.
func onMini(t testing.TB, opts Options) (*Coordinator, *redis.Client) {
	t.Helper()
	_, rdb := redistest.Mini(t)
	return newCoordinator(t, rdb, opts), rdb
}

// onBoth runs a test on miniredis and on a real redis-server. Every call of
// client gives a client of its own.
func onBoth(t *testing.T, test func(t *testing.T, client func() *redis.Client)) {
	t.Run("mini", func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		test(t, func() *redis.Client { return redistest.MiniClient(t, mini) })
	})
	t.Run("real", func(t *testing.T) {
		test(t, redistest.Start(t).CheckKeys().Client)
	})
}

func mustDo(t testing.TB, c *Coordinator, id string, a room.Action) room.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := c.Do(ctx, id, a)
	redistest.FatalIf(t, err != nil, "%s %+v: %v", room.KindOf(a), a, err)
	return r
}

// mustMove moves users, by the session r.
func mustMove(t testing.TB, c *Coordinator, from, to, r string, users ...string) (left, joined room.Result) {
	t.Helper()
	left, joined, err := c.Move(soon(t), from, to, r, users...)
	redistest.OK(t, err)
	return left, joined
}

func mustRead(t testing.TB, c *Coordinator, id string) room.Snapshot {
	t.Helper()
	s, err := c.Read(soon(t), id)
	redistest.OK(t, err)
	return s
}

// expectRoom expects a room to hold such users, and, unless it is 0, to be at a version.
func expectRoom(t testing.TB, s room.Snapshot, users string, version uint64) {
	t.Helper()
	if got := describeUsers(s.Users()); got != users || version > 0 && s.Version != version {
		t.Errorf("the room holds %q at version %d, want %q at %d", got, s.Version, users, version)
	}
}

// beforeScript has a client do something before it sends a script.
func beforeScript(client redis.UniversalClient, script any, do func() error) {
	client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		if !isScript(cmd, script) {
			return nil
		}
		return do()
	}})
}

// expectRefused expects an action to fail.
func expectRefused(t testing.TB, what string, c *Coordinator, id string, a room.Action, want error) {
	t.Helper()
	_, err := c.Do(soon(t), id, a)
	redistest.ErrorIf(t, !errors.Is(err, want), "%s: %v, want %v", what, err, want)
}

// keysOf returns the keys of rooms in Redis, without the fences, which expire.
func keysOf(t testing.TB, rdb *redis.Client) []string {
	t.Helper()
	keys := slices.DeleteFunc(rdb.Keys(t.Context(), "*").Val(), func(key string) bool {
		return strings.HasSuffix(key, ":Fence") || strings.HasPrefix(key, "Node")
	})
	slices.Sort(keys)
	return keys
}

// isScript reports whether a command runs a script, which is a *store.Script or a *redis.Script.
func isScript(cmd redis.Cmder, s any) bool {
	if cmd.Name() != "evalsha" {
		return false
	}
	hash, _ := cmd.Args()[1].(string)
	if s, ok := s.(*store.Script); ok {
		_, is := s.Is(hash)
		return is
	}
	return hash == s.(*redis.Script).Hash()
}

// once returns a hook function that runs do at the first command that is the
// given script.
func once(s any, do func() error) func(context.Context, redis.Cmder) error {
	var done atomic.Bool
	return func(_ context.Context, cmd redis.Cmder) error {
		if !isScript(cmd, s) || !done.CompareAndSwap(false, true) {
			return nil
		}
		return do()
	}
}

func checkInvalid(t *testing.T, err error, field, input string) {
	t.Helper()
	var invalid *room.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field || !errors.Is(err, room.ErrInvalid) || !strings.HasPrefix(err.Error(), field) {
		t.Errorf("%q: %v, want an error that names %s", input, err, field)
	}
}

func second(_ room.Result, err error) error { return err }

// warm loads the scripts, so that the hooks see the EVALSHA that executes.
func warm(t *testing.T, rdb redis.UniversalClient) {
	warmUp(t, rdb, store.LoadScript, store.AcquireScript, store.CommitScript)
}

func warmUp(t *testing.T, rdb redis.UniversalClient, scripts ...*store.Script) {
	t.Helper()
	redistest.OK(t, store.New(rdb, store.Options{}).Servers.Preload(t.Context(), scripts...))
}

func TestMain(m *testing.M) {
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}
