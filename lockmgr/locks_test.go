package lockmgr

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
)

// AcquireAll keeps the locks that it has while it waits for the others. After that they last
// for one TTL.
func TestAcquireAllKeepsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		m := newManager(t, client, Options{Poll: 100 * time.Millisecond})
		other := newManager(t, redistest.MiniClient(t, r), Options{})
		last := mustTry(t, other, "c")
		last.KeepAlive()
		time.AfterFunc(time.Minute+time.Second/2, func() { _ = last.Release(t.Context()) })
		time.AfterFunc(59*time.Second, func() {
			for _, name := range []string{"a", "b"} {
				_, err := other.TryAcquire(t.Context(), name)
				redistest.ErrorIf(t, !errors.Is(err, ErrHeld), "%s while c is waited for: %v", name, err)
			}
		})
		locks := mustAll(t, m, "a", "b", "c")
		left := time.Until(locks.Deadline())
		redistest.ErrorIf(t, left < DefaultTTL/2 || left > DefaultTTL, "%v are left", left)
		redistest.OK(t, locks.Err())
		got := time.Now()
		redistest.Receive(t, locks.Lock("a").Done(), "the first hold to end")
		after := time.Since(got)
		redistest.ErrorIf(t, after != left, "over after %v, the deadline was in %v", after, left)
		redistest.ErrorIs(t, "after the deadline", locks.Err(), ErrExpired)
		_ = locks.Release(t.Context())

		locks = mustAll(t, m, "a", "b")
		for lock := range locks.Each() {
			lock.KeepAlive()
		}
		time.Sleep(time.Minute)
		redistest.OK(t, locks.Release(t.Context()))
	})
}

// The last lock is handed over, for a claim, just before AcquireAll returns: it is extended to a TTL as well.
func TestAcquireAllExtendsAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		m := newManager(t, client, Options{Poll: 100 * time.Millisecond})
		last := mustTry(t, newManager(t, redistest.MiniClient(t, r), Options{}), "b")
		time.AfterFunc(time.Millisecond, func() { _ = last.Release(t.Context()) })
		start := time.Now()
		locks := mustAll(t, m, "a", "b")
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Fatalf("b was not handed over, but found free after %v", took)
		}
		left, stays := time.Until(locks.Deadline()), client.PTTL(t.Context(), m.Key("b")).Val()
		redistest.ErrorIf(t, left < DefaultTTL/2 || stays < left, "%v are left, and %v in Redis", left, stays)
		redistest.OK(t, locks.Release(t.Context()))
		checkClean(t, client)
	})
}

func TestAcquireAllLosesOneWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := newManager(t, client, Options{Poll: 100 * time.Millisecond})
		last := mustTry(t, m, "c")
		last.KeepAlive()
		time.AfterFunc(5*time.Second, func() { client.Set(t.Context(), m.Key("b"), "thief", time.Minute) })
		start := time.Now()
		_, err := m.AcquireAll(t.Context(), "a", "b", "c")
		redistest.ErrorIf(t, !errors.Is(err, ErrStolen) || !strings.Contains(err.Error(), `"b"`),
			"b was stolen: %v", err)
		after := time.Since(start)
		redistest.ErrorIf(t, after > 5*time.Second+DefaultTTL/3, "noticed after %v", after)
		redistest.Equal(t, "the thief's lock is gone:", client.Del(t.Context(), m.Key("b")).Val(), 1)
		redistest.OK(t, last.Release(t.Context()))
		checkClean(t, client)
	})
}

// Release reports a hold that was lost, and still gives back the others.
func TestLocksReleaseAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := newManager(t, client, Options{})
		locks := mustAll(t, m, "a", "b", "c")
		done := locks.Lock("b").Done()
		locks.Lock("b").KeepAlive()
		client.Del(t.Context(), m.Key("b"))
		redistest.Receive(t, done, "the hold to end")
		for range 2 {
			if err := locks.Err(); !errors.Is(err, ErrStolen) || !strings.Contains(err.Error(), `"b"`) {
				t.Errorf("b was deleted: %v", err)
			}
			redistest.ErrorIs(t, "release", locks.Release(t.Context()), ErrStolen)
		}
		checkClean(t, client)
	})
}

// Release reports a loss that nobody has noticed before.
func TestLocksReleaseTellsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := newManager(t, client, Options{})
		locks := mustAll(t, m, "a", "b", "c")
		time.Sleep(DefaultTTL / 2)
		for _, name := range []string{"a", "c"} {
			redistest.OK(t, locks.Lock(name).Extend(t.Context()))
		}
		time.Sleep(DefaultTTL / 2)
		err := locks.Release(t.Context())
		redistest.ErrorIf(t, !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), `"b"`), "release: %v", err)
		if err := locks.Err(); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("b has expired: %v", err)
		}
	})
}
