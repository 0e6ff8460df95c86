package lockmgr

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// New refuses clients on which it cannot keep locks.
func TestClientsThatAreRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for name, client := range map[string]redis.UniversalClient{
		"nil": nil, "a typed nil": (*redis.Client)(nil), "nil of a cluster": (*redis.ClusterClient)(nil), "ring": ring,
	} {
		if _, err := New(client, Options{}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "client is") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that says that it is too old is refused at first use.
func TestAnOldServerIsRefused(t *testing.T) {
	for version, refused := range map[string]bool{"6.2.14": true, "7.0.15": false, "10.1.0": false, "": false} {
		client := redistest.Start(t).Client()
		client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
			if info, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
				info.SetVal("# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n")
			}
			return nil
		}})
		_, err := newManager(t, client, Options{}).Acquire(t.Context(), "a")
		if errors.Is(err, ErrInvalid) != refused || refused && !strings.Contains(err.Error(), version) || !refused && err != nil {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// One call waits for a shorter time than its work takes, and holds for longer than others.
func TestDoWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		opts := AcquireOptions{Wait: 5 * time.Second, TTL: time.Hour}
		holder := mustAcquire(t, managers[0], "a")
		holder.KeepAlive()
		start := time.Now()
		err := managers[1].DoWith(t.Context(), "a", opts, func(context.Context, *Lock) error { t.Error("it ran"); return nil })
		if waited := time.Since(start); !errors.Is(err, ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || waited != opts.Wait {
			t.Errorf("after %v: %v", waited, err)
		}
		mustRelease(t, holder)
		if err := managers[1].DoWith(t.Context(), "a", opts, func(ctx context.Context, lock *Lock) error {
			if ttl := clients[0].PTTL(t.Context(), "Lock:a").Val(); ttl != opts.TTL || time.Until(lock.Deadline()) != opts.TTL {
				t.Errorf("TTL is %v, the deadline in %v", ttl, time.Until(lock.Deadline()))
			}
			time.Sleep(10 * opts.Wait)
			return ctx.Err()
		}); err != nil {
			t.Errorf("work that takes longer than the waiting: %v", err)
		}
		for _, opts := range []AcquireOptions{{Wait: -1}, {TTL: time.Millisecond}, {TTL: time.Second + 1}} {
			if _, err := managers[0].AcquireWith(t.Context(), "a", opts); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %v", opts, err)
			}
		}
		checkClean(t, clients[0])
	})
}

// A release hands the lock to the next waiter of its process for that waiter's TTL.
func TestAPassedHoldHasItsOwnTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 1, Options{})
		first := mustAcquire(t, managers[0], "a")
		got := make(chan *Lock, 1)
		go func() {
			lock, err := managers[0].AcquireWith(t.Context(), "a", AcquireOptions{TTL: time.Minute})
			redistest.ErrorIf(t, err != nil, "%v", err)
			got <- lock
		}()
		time.Sleep(time.Second)
		mustRelease(t, first)
		lock := redistest.Receive(t, got, "the waiter")
		redistest.Equal(t, "TTL is", clients[0].PTTL(t.Context(), "Lock:a").Val(), time.Minute)
		mustRelease(t, lock)
	})
}
