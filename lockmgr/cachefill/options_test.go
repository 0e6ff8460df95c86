package cachefill

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}

// An entry whose key looks like the lock of another entry does not collide with it.
func TestKeysDoNotMix(t *testing.T) {
	_, client := redistest.Mini(t)
	c := newNode(t, client, Options{})
	keys := []string{"k", "k:Fill", "k:Fill:Failure", "k:Fill:Fence", "k:Fill:Queue", "k:Fence", "k:Queue", "{k}",
		"{", "", "\xff\x00"}
	for range 2 {
		for _, key := range keys {
			value, err := c.Get(t.Context(), key, func(context.Context) ([]byte, error) { return []byte(key), nil })
			if key == "" {
				redistest.ErrorIf(t, !errors.Is(err, lockmgr.ErrInvalid), "empty key: %v", err)
			} else if err != nil || string(value) != key {
				t.Errorf("%q: %q, %v", key, value, err)
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	_, client := redistest.Mini(t)
	locks, err := lockmgr.New(client, lockmgr.Options{})
	redistest.OK(t, err)
	defer locks.Close()
	sent := 0
	client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error { sent++; return nil }})
	for _, tt := range []struct {
		locks *lockmgr.Manager
		opts  Options
		says  string
	}{
		{nil, Options{}, "locks"},
		{locks, Options{Prefix: "a{b}"}, "Prefix"},
		{locks, Options{Prefix: strings.Repeat("x", 129)}, "Prefix"},
		{locks, Options{Fresh: -1}, "Fresh"},
		{locks, Options{Fresh: time.Microsecond}, "Fresh"},
		{locks, Options{Stale: -1}, "Stale"},
		{locks, Options{Stale: 1500 * time.Microsecond}, "Stale"},
		{locks, Options{Wait: -1}, "Wait"},
		{locks, Options{Load: -1}, "Load"},
		{locks, Options{Backoff: -1}, "Backoff"},
		{locks, Options{Poll: time.Second}, "Backoff"},
		{locks, Options{Fresh: 60 * time.Millisecond, Stale: 40 * time.Millisecond}, "Fresh"},
		{locks, Options{LockTTL: -1}, "LockTTL"},
		{locks, Options{LockTTL: 99 * time.Millisecond}, "LockTTL"},
		{locks, Options{Poll: -1}, "Poll"},
	} {
		redistest.ErrorSays(t, "New", redistest.Err(New(tt.locks, tt.opts)), lockmgr.ErrInvalid, tt.says)
	}
	c := newNode(t, client, Options{})
	for _, key := range []string{"", strings.Repeat("x", maxKey+1)} {
		redistest.ErrorSays(t, "Get", redistest.Err(c.Get(t.Context(), key, mustNotLoad)), lockmgr.ErrInvalid, "key")
	}
	var none context.Context
	redistest.ErrorSays(t, "Get", redistest.Err(c.Get(none, "k", mustNotLoad)), lockmgr.ErrInvalid, "ctx is nil")
	redistest.ErrorSays(t, "Get", redistest.Err(c.Get(t.Context(), "k", nil)), lockmgr.ErrInvalid, "load")
	redistest.ErrorIf(t, sent != 0, "%d commands were sent", sent)
}
