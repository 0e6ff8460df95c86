package cachefill

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// told returns an Options.Failed, and where its errors are.
func told() (func(string, error), <-chan error) {
	errs := make(chan error, 100)
	return func(_ string, err error) { errs <- err }, errs
}

// userWith returns a client of a user with these rights, closed with the test.
func userWith(t *testing.T, server *redistest.Server, rules ...string) redis.UniversalClient {
	t.Helper()
	name := "u" + strings.Join(rules, "")
	redistest.OK(t, server.Client().ACLSetUser(t.Context(), name, append([]string{"on", "nopass"}, rules...)...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: name, Password: "-", ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Redis takes no more data, or none from this user: the loader still gets its value or its
// own error, and the script that fails to store releases the lock.
func TestRedisKeepsNothing(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	limited := func(rules ...string) redis.UniversalClient {
		return userWith(t, server, append([]string{"~*", "&*", "+@all"}, rules...)...)
	}
	full := func(on bool) {
		limit := map[bool]string{false: "0", true: "1"}[on]
		redistest.OK(t, admin.ConfigSet(t.Context(), "maxmemory", limit).Err())
	}
	for name, tt := range map[string]struct {
		client redis.UniversalClient
		full   bool
		says   string
	}{
		"maxmemory":    {limited(), true, "OOM"},
		"without hset": {limited("-hset"), false, "can't run this command"},
		// Without a TTL it would stay for ever. Nor can the watchdog extend the lock.
		"without pexpire": {limited("-pexpire"), false, "can't run this command"},
	} {
		t.Run(name, func(t *testing.T) {
			admin.FlushAll(t.Context())
			failed, why := told()
			c := newNode(t, tt.client, Options{Failed: failed})
			load := func(result string, err error) Loader {
				return func(context.Context) ([]byte, error) {
					full(tt.full)
					return []byte(result), err
				}
			}
			for range 2 {
				want(t, c, load("value", nil), "value")
				redistest.ErrorSays(t, "told", redistest.Receive(t, why, "a call of Failed"), errNotKept, tt.says)
				full(false)
				free(t, c, admin)
			}
			for range 2 {
				fails(t, c, load("", errOnFire), errOnFire, "")
				full(false)
				free(t, c, admin)
			}
		})
	}
}

// The user may not acquire the lock either: Get says so, and loads nothing.
func TestRedisRefusesTheLock(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	for _, tt := range []struct {
		rules []string
		says  string
	}{
		{[]string{"~Lock:*", "+@all"}, "NOPERM"},
		{[]string{"~Cache:*", "+@all"}, "NOPERM"},
		{[]string{"~*", "+@all", "-evalsha"}, "NOPERM"},
		{[]string{"~*", "+@all", "-hmget"}, "can't run this command"},
		{[]string{"~*", "+@all", "-set"}, "can't run this command"},
		{[]string{"~*", "+@read", "+@scripting"}, "can't run this command"},
	} {
		_, err := newNode(t, userWith(t, server, tt.rules...), Options{}).Get(t.Context(), "k", mustNotLoad)
		redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), tt.says), "%v: %v", tt.rules, err)
		keys := admin.Keys(t.Context(), "*").Val()
		redistest.ErrorIf(t, len(keys) != 0, "%v: left over: %v", tt.rules, keys)
	}
	redistest.OK(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err := newNode(t, admin, Options{}).Get(t.Context(), "k", mustNotLoad)
	redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "OOM"), "at maxmemory: %v", err)
}

// Redis forgets the lock in the middle of a load, and somebody else loads: all return that
// value, or each its own.
func TestRedisIsEmptiedDuringALoad(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	for name, forget := range map[string]func(){
		"flushed":                             func() { admin.FlushAll(t.Context()) },
		"restarted from a snapshot of before": server.Restart,
	} {
		t.Run(name, func(t *testing.T) {
			admin.FlushAll(t.Context())
			admin.Save(t.Context())
			failed, why := told()
			c, other := newNode(t, server.Client(), Options{Failed: failed}), newNode(t, server.Client(), Options{})
			want(t, c, func(context.Context) ([]byte, error) {
				forget()
				want(t, other, func(context.Context) ([]byte, error) { return []byte("newer"), nil }, "newer")
				return []byte("older"), nil
			}, "newer")
			redistest.ErrorIs(t, "told", redistest.Receive(t, why, "a call of Failed"), lockmgr.ErrLost)
			want(t, c, mustNotLoad, "newer")
			free(t, c, admin)
		})
	}
}

// The rights that the README lists are enough for the lock, and with those of the cache for that.
func TestTheListedRightsAreEnough(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	redistest.OK(t, err)
	_, after, _ := strings.Cut(string(readme), "ACL SETUSER name on >secret ")
	rules, _, _ := strings.Cut(after, "\n\n")
	server := redistest.Start(t)
	rights := append([]string{"~Cache:*", "+hset", "+hget", "+hmget"}, strings.Fields(rules)...)
	c := newNode(t, userWith(t, server, rights...), Options{})
	want(t, c, func(context.Context) ([]byte, error) { return []byte("v"), nil }, "v")
	lock, err := c.locks.AcquireAll(t.Context(), "a", "b")
	redistest.OK(t, err)
	next := make(chan error, 2)
	for range 2 {
		go func() {
			next <- c.locks.DoWith(t.Context(), "a", lockmgr.AcquireOptions{Wait: 5 * time.Second},
				func(ctx context.Context, lock *lockmgr.Lock) error { return lock.Extend(ctx) })
		}()
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _ = c.locks.Acquire(short, "b") // leaves
	redistest.OK(t, lock.Release(t.Context()))
	for range 2 {
		redistest.OK(t, redistest.Receive(t, next, "the next holder"))
	}
	denied, err := server.Client().Do(t.Context(), "ACL", "LOG").Slice()
	redistest.OK(t, err)
	for _, entry := range denied {
		text := fmt.Sprint(entry)
		redistest.ErrorIf(t, !strings.Contains(text, "info"), "denied: %s", text)
	}
}
