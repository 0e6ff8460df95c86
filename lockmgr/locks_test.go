package lockmgr_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// AcquireAll keeps the locks that it has while it waits for the others. After that they last
// for one TTL.
func TestAcquireAllKeepsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		m := manager(t, client, lockmgr.Options{Poll: 100 * time.Millisecond})
		other := manager(t, redistest.MiniClient(t, r), lockmgr.Options{})
		last := hold(t, other, "c")
		last.KeepAlive()
		time.AfterFunc(time.Minute+time.Second/2, func() { _ = last.Release(t.Context()) })
		time.AfterFunc(59*time.Second, func() {
			for _, name := range []string{"a", "b"} {
				if _, err := other.TryAcquire(t.Context(), name); !errors.Is(err, lockmgr.ErrHeld) {
					t.Errorf("%s while c is waited for: %v", name, err)
				}
			}
		})
		locks, err := m.AcquireAll(t.Context(), "a", "b", "c")
		redistest.OK(t, err)
		left := time.Until(locks.Deadline())
		if left < lockmgr.DefaultTTL/2 || left > lockmgr.DefaultTTL {
			t.Errorf("%v are left", left)
		}
		if err := locks.Err(); err != nil {
			t.Error(err)
		}
		got := time.Now()
		redistest.Receive(t, locks.Lock("a").Done(), "the first hold to end")
		if after := time.Since(got); after != left {
			t.Errorf("over after %v, the deadline was in %v", after, left)
		}
		if err := locks.Err(); !errors.Is(err, lockmgr.ErrExpired) {
			t.Errorf("after the deadline: %v", err)
		}
		_ = locks.Release(t.Context())

		locks, err = m.AcquireAll(t.Context(), "a", "b")
		redistest.OK(t, err)
		for lock := range locks.Each() {
			lock.KeepAlive()
		}
		time.Sleep(time.Minute)
		if err := locks.Release(t.Context()); err != nil {
			t.Errorf("after a minute of watchdogs: %v", err)
		}
	})
}

// The last lock is handed over, for a claim, just before AcquireAll returns: it is extended to a TTL as well.
func TestAcquireAllExtendsAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := redistest.Mini(t)
		m := manager(t, client, lockmgr.Options{Poll: 100 * time.Millisecond})
		last := hold(t, manager(t, redistest.MiniClient(t, r), lockmgr.Options{}), "b")
		time.AfterFunc(time.Millisecond, func() { _ = last.Release(t.Context()) })
		start := time.Now()
		locks, err := m.AcquireAll(t.Context(), "a", "b")
		redistest.OK(t, err)
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Fatalf("b was not handed over, but found free after %v", took)
		}
		if left, stays := time.Until(locks.Deadline()), client.PTTL(t.Context(), m.Key("b")).Val(); left < lockmgr.DefaultTTL/2 || stays < left {
			t.Errorf("%v are left, and %v in Redis", left, stays)
		}
		redistest.OK(t, locks.Release(t.Context()))
		nothingLeft(t, client)
	})
}

func TestAcquireAllLosesOneWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := manager(t, client, lockmgr.Options{Poll: 100 * time.Millisecond})
		last := hold(t, m, "c")
		last.KeepAlive()
		time.AfterFunc(5*time.Second, func() { client.Set(t.Context(), m.Key("b"), "thief", time.Minute) })
		start := time.Now()
		_, err := m.AcquireAll(t.Context(), "a", "b", "c")
		if !errors.Is(err, lockmgr.ErrStolen) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("b was stolen: %v", err)
		}
		if after := time.Since(start); after > 5*time.Second+lockmgr.DefaultTTL/3 {
			t.Errorf("noticed after %v", after)
		}
		if got := client.Del(t.Context(), m.Key("b")).Val(); got != 1 {
			t.Error("the thief's lock is gone")
		}
		if err := last.Release(t.Context()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, client)
	})
}

// Release reports a hold that was lost, and still gives back the others.
func TestLocksReleaseAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := manager(t, client, lockmgr.Options{})
		locks, err := m.AcquireAll(t.Context(), "a", "b", "c")
		redistest.OK(t, err)
		done := locks.Lock("b").Done()
		locks.Lock("b").KeepAlive()
		client.Del(t.Context(), m.Key("b"))
		redistest.Receive(t, done, "the hold to end")
		for range 2 {
			if err := locks.Err(); !errors.Is(err, lockmgr.ErrStolen) || !strings.Contains(err.Error(), `"b"`) {
				t.Errorf("b was deleted: %v", err)
			}
			if err := locks.Release(t.Context()); !errors.Is(err, lockmgr.ErrStolen) {
				t.Errorf("release: %v", err)
			}
		}
		nothingLeft(t, client)
	})
}

// Release reports a loss that nobody has noticed before.
func TestLocksReleaseTellsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		m := manager(t, client, lockmgr.Options{})
		locks, err := m.AcquireAll(t.Context(), "a", "b", "c")
		redistest.OK(t, err)
		time.Sleep(lockmgr.DefaultTTL / 2)
		for _, name := range []string{"a", "c"} {
			redistest.OK(t, locks.Lock(name).Extend(t.Context()))
		}
		time.Sleep(lockmgr.DefaultTTL / 2)
		if err := locks.Release(t.Context()); !errors.Is(err, lockmgr.ErrExpired) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("release: %v", err)
		}
		if err := locks.Err(); !errors.Is(err, lockmgr.ErrExpired) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("b has expired: %v", err)
		}
	})
}
