package cachefill

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// told is an Options.Failed that keeps the errors.
func told(t *testing.T) (func(string, error), func() error) {
	errs := make(chan error, 100)
	return func(_ string, err error) { errs <- err }, func() error {
		t.Helper()
		select {
		case err := <-errs:
			return err
		case <-time.After(10 * time.Second):
			t.Fatal("waited 10s for Options.Failed to be called")
			return nil
		}
	}
}

// Redis takes no more data, or none from this user: the loader still gets its value or its
// own error, and the script that fails to store releases the lock.
func TestRedisKeepsNothing(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	limited := func(rules ...string) func() redis.UniversalClient {
		return func() redis.UniversalClient {
			name := "u" + strings.Join(rules, "")
			redistest.OK(t, admin.ACLSetUser(t.Context(), name,
				append([]string{"on", "nopass", "~*", "&*", "+@all"}, rules...)...).Err())
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: name, Password: "-"})
			t.Cleanup(func() { _ = client.Close() })
			return client
		}
	}
	full := func(on bool) {
		limit := "0"
		if on {
			limit = "1"
		}
		redistest.OK(t, admin.ConfigSet(t.Context(), "maxmemory", limit).Err())
	}
	for name, tt := range map[string]struct {
		client func() redis.UniversalClient
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
			failed, why := told(t)
			c := newNode(t, tt.client(), Options{Failed: failed})
			load := func(result string, err error) Loader {
				return func(context.Context) ([]byte, error) {
					full(tt.full)
					return []byte(result), err
				}
			}
			for range 2 {
				want(t, c, load("value", nil), "value")
				if err := why(); !errors.Is(err, errNotKept) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("told %v", err)
				}
				full(false)
				free(t, c, admin)
			}
			broken := errors.New("the database is on fire")
			for range 2 {
				redistest.ErrorIs(t, "the error is", redistest.Err(c.Get(t.Context(), "k", load("", broken))), broken)
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
		redistest.OK(t, admin.ACLSetUser(t.Context(), "half",
			append([]string{"reset", "on", "nopass"}, tt.rules...)...).Err())
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "half", Password: "-"})
		t.Cleanup(func() { _ = client.Close() })
		_, err := newNode(t, client, Options{}).Get(t.Context(), "k", mustNotLoad)
		redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), tt.says), "%v: %v", tt.rules, err)
		keys := admin.Keys(t.Context(), "*").Val()
		redistest.ErrorIf(t, len(keys) != 0, "%v: left over: %v", tt.rules, keys)
	}
	redistest.OK(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err := newNode(t, admin, Options{}).Get(t.Context(), "k", mustNotLoad)
	redistest.ErrorIf(t, err == nil ||
		!strings.Contains(err.Error(), "OOM"), "at maxmemory: %v", err)
}

// Redis forgets the lock in the middle of a load, and somebody else loads: all return that
// value, or each its own.
func TestRedisIsEmptiedDuringALoad(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	for name, forget := range map[string]func(){
		"flushed": func() { admin.FlushAll(t.Context()) },
		"restarted from a snapshot of before": func() {
			server.Restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			admin.FlushAll(t.Context())
			admin.Save(t.Context())
			failed, why := told(t)
			c, other := newNode(t, server.Client(), Options{Failed: failed}), newNode(t, server.Client(), Options{})
			want(t, c, func(context.Context) ([]byte, error) {
				forget()
				want(t, other, func(context.Context) ([]byte, error) { return []byte("newer"), nil }, "newer")
				return []byte("older"), nil
			}, "newer")
			redistest.ErrorIs(t, "told", why(), lockmgr.ErrLost)
			want(t, c, mustNotLoad, "newer")
			free(t, c, admin)
		})
	}
}
