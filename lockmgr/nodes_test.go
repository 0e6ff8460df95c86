package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}

func newManager(t testing.TB, client redis.UniversalClient, opts Options) *Manager {
	t.Helper()
	m, err := New(client, opts)
	redistest.OK(t, err)
	t.Cleanup(m.Close)
	redistest.EndInTime(t, "closing the Manager", m.Close)
	return m
}

// onBoth runs a test on miniredis and on a real redis-server.
func onBoth(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Run("mini", func(t *testing.T) {
		_, client := redistest.Mini(t)
		test(t, client)
	})
	t.Run("real", func(t *testing.T) {
		test(t, redistest.Start(t).CheckKeys().Client())
	})
}

// slotOf returns a slot for the lock "a" with that token.
func slotOf(m *Manager, token string) *Slot {
	s := new(Slot)
	s.init(m, "a")
	s.tokens.current = token
	return s
}

// newWaiter returns a waiter for the lock "a".
func newWaiter(m *Manager) *waiter {
	w := new(waiter)
	w.init(m, "a")
	w.args[0] = w.ttl.Milliseconds()
	return w
}

// keepQueue is how long lock.lua keeps a queue that nobody asks about.
const keepQueue = time.Minute

// askAs asks once for the lock "a" under a token of the test's. If it is not free, the
// token waits behind so many.
func askAs(t testing.TB, m *Manager, token string) (held bool, ahead int64) {
	t.Helper()
	cmd, err := slotOf(m, token).Ask(t.Context(), acquireScript, m.opts.TTL.Milliseconds())
	redistest.OK(t, err)
	fence, _ := parseReply(cmd.Val())
	if fence == "" {
		ahead = m.sender.client.ZRank(t.Context(), m.Keys("a")[1], token).Val()
	}
	return fence != "", ahead
}

// virtually runs a test in virtual time with managers that have a client each on one Redis. In the end nothing is
// left in Redis.
func virtually(t *testing.T, n int, opts Options,
	test func(t *testing.T, managers []*Manager, clients []*redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, n, opts)
		test(t, managers, clients)
		checkClean(t, clients[0])
	})
}

// nodes returns managers, each with its own client, on one Redis in virtual time.
func nodes(t *testing.T, n int, opts Options) ([]*Manager, []*redis.Client) {
	t.Helper()
	server, _ := redistest.Mini(t)
	var managers []*Manager
	var clients []*redis.Client
	for range n {
		c := redistest.MiniClient(t, server)
		managers, clients = append(managers, newManager(t, c, opts)), append(clients, c)
	}
	return managers, clients
}

func mustAcquire(t testing.TB, m *Manager, name string) *Lock {
	t.Helper()
	lock, err := m.Acquire(t.Context(), name)
	redistest.OK(t, err)
	return lock
}

// mustTry acquires a lock that is free.
func mustTry(t testing.TB, m *Manager, name string) *Lock {
	t.Helper()
	lock, err := m.TryAcquire(t.Context(), name)
	redistest.OK(t, err)
	return lock
}

func mustAll(t testing.TB, m *Manager, names ...string) *Locks {
	t.Helper()
	locks, err := m.AcquireAll(t.Context(), names...)
	redistest.OK(t, err)
	return locks
}

// acquiring has m acquire a lock meanwhile.
func acquiring(t testing.TB, m *Manager, name string) <-chan *Lock {
	got := make(chan *Lock, 1)
	go func() { got <- mustAcquire(t, m, name) }()
	return got
}

// giving returns the error of an Acquire under way, which is to give up.
func giving(ctx context.Context, m *Manager) <-chan error {
	gone := make(chan error, 1)
	go func() { gone <- second(m.Acquire(ctx, "a")) }()
	return gone
}

// beforeScript has a client do something before it sends a script; any command if script is nil.
func beforeScript(client *redis.Client, script *redis.Script, do func(ctx context.Context) error) {
	client.AddHook(redistest.Hook{Before: hook(script, do)})
}

// afterScript has a client do something when it has the reply to a script; to any command if script is nil.
func afterScript(client *redis.Client, script *redis.Script, do func(ctx context.Context) error) {
	client.AddHook(redistest.Hook{After: hook(script, do)})
}

// onScript is beforeScript or afterScript.
type onScript func(client *redis.Client, script *redis.Script, do func(ctx context.Context) error)

func hook(script *redis.Script, do func(ctx context.Context) error) func(context.Context, redis.Cmder) error {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if script != nil && !isScript(cmd, script) {
			return nil
		}
		return do(ctx)
	}
}

// counted counts the sendings of a script from now on; of all commands if script is nil.
func counted(client *redis.Client, script *redis.Script) *atomic.Int32 {
	n := new(atomic.Int32)
	beforeScript(client, script, func(context.Context) error { n.Add(1); return nil })
	return n
}

// lose loses the next reply to a script.
func lose(client *redis.Client, script *redis.Script) {
	var lost atomic.Bool
	afterScript(client, script, func(context.Context) error {
		if lost.CompareAndSwap(false, true) {
			return errLostReply
		}
		return nil
	})
}

var errLostReply = errors.New("reply lost")

func mustRelease(t testing.TB, lock *Lock) {
	t.Helper()
	redistest.OK(t, lock.Release(t.Context()))
}

// awaitLine waits until n callers of m wait for a lock.
func awaitLine(t testing.TB, m *Manager, name string, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		m.lines.mu.Lock()
		waiting := 0
		if l := m.lines.byName[name]; l != nil {
			waiting = len(l.waiters)
		}
		m.lines.mu.Unlock()
		if waiting == n {
			return
		}
	}
	t.Fatalf("never %d waited for %s", n, name)
}

// awaitQueue waits until n tokens wait in the queue of a lock.
func awaitQueue(t *testing.T, client *redis.Client, name string, n int64) {
	t.Helper()
	redistest.Until(t, fmt.Sprintf("%d tokens are in the queue of %s", n, name), func() bool {
		return client.ZCount(t.Context(), "Lock:"+name+":Queue", "-inf", "(1e18").Val() >= n
	})
}

// queued returns how many tokens wait in the queue of the lock "a".
func queued(t *testing.T, client redis.UniversalClient) int64 {
	t.Helper()
	return client.ZCount(t.Context(), "Lock:a:Queue", "-inf", "(1e18").Val()
}

// order records who gets a lock after whom.
type order struct {
	mu  sync.Mutex
	who []string
}

func (o *order) note(who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.who = append(o.who, who)
}

// ways are all ways to acquire the lock "a", for the TTL of the Manager.
var ways = map[string]func(ctx context.Context, m *Manager) (*Lock, error){
	"acquire": func(ctx context.Context, m *Manager) (*Lock, error) { return m.Acquire(ctx, "a") },
	"try":     func(ctx context.Context, m *Manager) (*Lock, error) { return m.TryAcquire(ctx, "a") },
	"all": func(ctx context.Context, m *Manager) (*Lock, error) {
		all, err := m.AcquireAll(ctx, "a", "b")
		if err != nil {
			return nil, err
		}
		_ = all.Lock("b").Release(ctx)
		return all.Lock("a"), nil
	},
	"or wait": func(ctx context.Context, m *Manager) (*Lock, error) {
		_, lock, err := m.AcquireOrWait(ctx, "a", WaitOptions{TTL: m.opts.TTL})
		return lock, err
	},
}

func second(_ *Lock, err error) error { return err }

// swallow has Redis not answer a script.
func swallow(client *redis.Client, script *redis.Script) {
	beforeScript(client, script, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
}

func isScript(cmd redis.Cmder, s *redis.Script) bool {
	switch cmd.Name() {
	case "evalsha":
		return cmd.Args()[1] == s.Hash()
	case "eval":
		return redis.NewScript(cmd.Args()[1].(string)).Hash() == s.Hash()
	}
	return false
}

// checkClean expects nothing in Redis but the last fences, and tokens that are buried, all of
// which have a TTL.
func checkClean(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	for _, key := range client.Keys(t.Context(), "*").Val() {
		goes := strings.HasSuffix(key, ":Fence") ||
			strings.HasSuffix(key, ":Queue") && client.ZCount(t.Context(), key, "-inf", "(1e18").Val() == 0
		ttl := client.PTTL(t.Context(), key).Val()
		redistest.ErrorIf(t, !goes || ttl <= 0, "%s is left over (TTL %v)", key, ttl)
	}
}

// soon fails the test if do takes far longer than a call may without Redis.
func soon(t *testing.T, what string, do func() error) (err error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(4 * time.Second):
		t.Fatalf("%s has not ended after 4s", what)
		return nil
	}
}
