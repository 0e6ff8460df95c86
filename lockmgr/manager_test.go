package lockmgr

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

func TestHoldAndGiveBack(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{Prefix: "LockRoom:"})
		before := time.Now()
		lock := mustAcquire(t, m, "42")
		if got := client.Get(ctx, "LockRoom:42").Val(); got != lock.Token() || !strings.HasPrefix(got, "42:") {
			t.Fatalf("LockRoom:42 holds %q, the token is %q", got, lock.Token())
		}
		if ttl := client.PTTL(ctx, "LockRoom:42").Val(); ttl <= 0 || ttl > DefaultTTL {
			t.Fatalf("TTL is %v", ttl)
		}
		if d := lock.Deadline(); d.Before(before.Add(DefaultTTL)) || d.After(time.Now().Add(DefaultTTL)) {
			t.Fatalf("deadline %v does not lie a TTL after the request", d)
		}
		redistest.ErrorIs(t, "second holder", redistest.Err(m.TryAcquire(ctx, "42")), ErrHeld)
		if other, err := m.TryAcquire(ctx, "43"); err != nil {
			t.Fatalf("another name: %v", err)
		} else if err := other.Release(ctx); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second call has nothing to do
			redistest.OK(t, lock.Release(ctx))
		}
		checkClean(t, client)
		redistest.ErrorIs(t, "extend after release", lock.Extend(ctx), ErrReleased)
	})
}

func TestOnlyTheWholeTokenCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{})
		lock := mustAcquire(t, m, "foo")
		for _, other := range []string{lock.Token() + "bar", lock.Token()[:len(lock.Token())-1], "foo:", ""} {
			client.Set(ctx, m.Key("foo"), other, time.Minute)
			s := new(Slot)
			s.init(m, "foo")
			lock := newLock(s, DefaultTTL, &grant{token: lock.Token(), since: time.Now(), lasts: DefaultTTL})
			err := lock.Extend(ctx)
			redistest.ErrorIf(t, !errors.Is(err, ErrStolen), "extend while the key holds %q: %v", other, err)
			if err := lock.Release(ctx); !errors.Is(err, ErrStolen) {
				t.Errorf("release while the key holds %q: %v", other, err)
			}
			got := client.Get(ctx, m.Key("foo")).Val()
			redistest.ErrorIf(t, got != other, "the key held %q and now %q", other, got)
		}
	})
}

func TestSameTokenAskingAgainHasSucceeded(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		ctx := t.Context()
		m := newManager(t, client, Options{TTL: time.Minute})
		for range 2 {
			if held, _ := askAs(t, m, "a:token"); !held {
				t.Fatal("not taken")
			}
			client.PExpire(ctx, m.Key("a"), time.Second) // the second try starts the TTL anew
		}
		if held, _ := askAs(t, m, "a:token"); !held {
			t.Fatal("not taken again")
		}
		if ttl := client.PTTL(ctx, m.Key("a")).Val(); ttl <= time.Second {
			t.Fatalf("TTL is %v after the last try", ttl)
		}
		if held, _ := askAs(t, m, "a:other"); held {
			t.Fatal("another token took a held lock")
		}
	})
}

// The TTL is over, in virtual time: the next caller gets the lock, and the old holder can
// neither extend nor release it.
func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		ctx := t.Context()
		m := newManager(t, client, Options{})
		start := time.Now()
		stale := mustAcquire(t, m, "a")
		next := mustAcquire(t, m, "a")
		if waited := time.Since(start); waited < DefaultTTL || waited > DefaultTTL+DefaultPoll {
			t.Fatalf("a dead holder blocked for %v", waited)
		}
		redistest.ErrorIs(t, "extend", stale.Extend(ctx), ErrLost)
		redistest.ErrorIs(t, "release", stale.Release(ctx), ErrLost)
		time.Sleep(2 * time.Second)
		redistest.OK(t, next.Extend(ctx))
		time.Sleep(2 * time.Second) // past the first deadline, not past the second
		redistest.ErrorIf(t, time.Now().After(next.Deadline()), "extend did not move the deadline")
		redistest.OK(t, next.Release(ctx))
	})
}

// SCRIPT FLUSH and a new server forget the scripts: the next call sends them again.
func TestScriptsAreForgotten(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	m := newManager(t, client, Options{})
	for range 2 {
		lock := mustAcquire(t, m, "a")
		client.ScriptFlush(t.Context())
		redistest.OK(t, lock.Release(t.Context()))
		server.Restart()
	}
}
