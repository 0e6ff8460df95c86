package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// bubbled is a caller of a discipline in a synctest bubble, on a Redis whose keys
// expire by its clock.
func bubbled(t *testing.T, d *discipline, second time.Duration) (*caller, *redis.Client) {
	t.Helper()
	_, rdb := redistest.Mini(t)
	l := &lab{cfg: Config{}.withDefaults(), redis: rdb, run: "bubble", seed: 1}
	x := newCell(l, d, faults[0], second)
	p, err := newProcess(x, "1", nil)
	redistest.OK(t, err)
	t.Cleanup(p.stop)
	c := x.callerIn(p, victimUser, false)
	c.asked = time.Now()
	return c, rdb
}

// asks records when a caller asks for the lock.
type asks struct {
	mu sync.Mutex
	at []time.Duration // guarded by mu
}

// note records when the client sends a command.
func (a *asks) note(c *caller, command string) {
	begun := time.Now()
	c.process.rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if strings.EqualFold(cmd.Name(), command) {
			a.at = append(a.at, time.Since(begun))
		}
		return nil
	}})
}

// A caller that finds the lock taken asks again after its article's pause, or after 5 ms
// where the article has none. Only pauses published in seconds are scaled.
func TestPauses(t *testing.T) {
	paths, pauses := readPublished(t)
	for _, d := range disciplines {
		pause := pauses[d.name]
		if pause == 0 || d.inHash { // hsetnx asks as setnx does
			continue
		}
		first := paths[slices.IndexFunc(paths, func(p path) bool { return p.discipline == d.name })]
		command, _, _ := strings.Cut(first.want, " ")
		scales := d.has(stepLooking)
		for _, second := range []time.Duration{time.Second, defaultSecond} {
			synctest.Test(t, func(t *testing.T) {
				c, rdb := bubbled(t, d, second)
				held := "99999999999999:1"
				if d.counts {
					held = "1"
				}
				redistest.OK(t, rdb.Set(t.Context(), c.x.lockKey, held, 0).Err())
				want := []time.Duration{0, pause, 2 * pause, 3 * pause}
				if scales {
					for i := range want {
						want[i] = want[i] * second / time.Second
					}
				}
				var asked asks
				asked.note(c, command)
				ctx, cancel := context.WithTimeout(t.Context(), want[3]+want[1]/2)
				defer cancel()
				if err := d.lock.acquire(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s ends with %v", d.name, err)
				}
				if !slices.Equal(asked.at, want) {
					t.Errorf("%s asks at %v, want %v", d.name, asked.at, want)
				}
			})
		}
	}
}

// By its clock of whole seconds a caller waits for 4 to 5 s, depending on when in a second
// it begins. Then the outcome is 0, an error for the cache's caller.
func TestTimestamp_WaitsByWholeSeconds(t *testing.T) {
	for _, d := range []*discipline{named("timestamp"), named("timestamp-first")} {
		for begins, asksFor := range map[time.Duration]int{0: 50, 500 * time.Millisecond: 45, 950 * time.Millisecond: 41} {
			synctest.Test(t, func(t *testing.T) { // begins with a second
				c, rdb := bubbled(t, d, time.Second)
				redistest.OK(t, rdb.Set(t.Context(), c.x.lockKey, "99999999999999:1", 0).Err())
				time.Sleep(begins)
				var asked asks
				asked.note(c, map[*discipline]string{named("timestamp"): "GET", named("timestamp-first"): "SETNX"}[d])
				got, err := d.lock.wait(t.Context(), c)
				if got != timedOut || err != nil || len(asked.at) != asksFor {
					t.Errorf("%s from %v on: %v, %v, after %d times; want %d", d.name, begins, got, err, len(asked.at), asksFor)
				}
			})
		}
	}
}

func TestTimestamp_CacheAfterOutcomeZero(t *testing.T) {
	for _, tt := range []struct {
		d     *discipline
		there bool // the value, when the wait is over
		want  error
	}{
		{named("timestamp"), false, errTimedOut}, {named("timestamp"), true, errTimedOut},
		{named("timestamp-first"), false, errNoValue}, {named("timestamp-first"), true, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, rdb := bubbled(t, tt.d, time.Second)
			redistest.OK(t, rdb.Set(t.Context(), c.x.lockKey, "99999999999999:1", 0).Err())
			e := newEntry(c.x, scene{})
			if tt.there {
				time.AfterFunc(3*time.Second, func() { rdb.Set(t.Context(), e.value, newValue, 0) })
			}
			if _, err := e.get(t.Context(), c); !errors.Is(err, tt.want) {
				t.Errorf("%s, with the value there %t: %v, want %v", tt.d.name, tt.there, err, tt.want)
			}
			synctest.Wait()
		})
	}
}

// TTL rounds to the nearest second, also in milliseconds.
func TestSecondsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := bubbled(t, named("timestamp"), defaultSecond)
		left := func() int64 {
			t.Helper()
			n, err := c.secondsLeft(t.Context())
			redistest.OK(t, err)
			return n
		}
		if n := left(); n != -2 {
			t.Errorf("a missing lock has %d s left", n)
		}
		for ms, want := range map[int]int64{200: 2, 150: 2, 149: 1, 50: 1, 49: 0, 1: 0} {
			rdb.Set(t.Context(), c.x.lockKey, "x", time.Duration(ms)*time.Millisecond)
			if n := left(); n != want {
				t.Errorf("with %d ms of a second of %v, %d s are left, want %d", ms, defaultSecond, n, want)
			}
		}
		rdb.Set(t.Context(), c.x.lockKey, "x", 0)
		if n := left(); n != -1 {
			t.Errorf("a lock without an expiry has %d s left", n)
		}
	})
}

// The numbers are drawn from the published ranges, ends included.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := bubbled(t, named("set-rand-lua"), time.Second)
		seen := make(map[string]bool)
		for range 1000 {
			seen[c.number(7, 9)] = true
		}
		if len(seen) != 3 || !seen["7"] || !seen["9"] {
			t.Errorf("from 7 to 9: %v", seen)
		}
	})
}

// A time is past when it is before now, in whole seconds.
func TestTimestamp_TimeIsPast(t *testing.T) {
	for _, d := range []*discipline{named("timestamp"), named("timestamp-first")} {
		synctest.Test(t, func(t *testing.T) { // begins with a second
			c, rdb := bubbled(t, d, time.Second)
			redistest.OK(t, rdb.Set(t.Context(), c.x.lockKey, fmt.Sprintf("%d:1", time.Now().Unix()), 0).Err())
			got, err := d.lock.wait(t.Context(), c)
			if took := time.Since(c.asked); got != acquired || err != nil || took != time.Second {
				t.Errorf("%s: %v, %v, after %v; want the lock after a second", d.name, got, err, took)
			}
		})
	}
}

// The scripts that compare times, at the millisecond where they differ.
func TestTimestamp_ScriptsCompareTimes(t *testing.T) {
	for _, tt := range []struct {
		d    *discipline
		ms   int64 // of the lock, after now
		gone bool
	}{
		{named("timestamp-release"), 1000, true}, {named("timestamp-release"), 1001, false},
		{named("timestamp-plain"), -1, true}, {named("timestamp-plain"), 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, rdb := bubbled(t, tt.d, time.Second)
			redistest.OK(t, rdb.Set(t.Context(), c.x.lockKey, time.Now().UnixMilli()+tt.ms, 0).Err())
			redistest.OK(t, tt.d.lock.unlock(t.Context(), c))
			if left := rdb.Exists(t.Context(), c.x.lockKey).Val(); (left == 0) != tt.gone {
				t.Errorf("%s: a lock of %d ms after now: gone %t", tt.d.name, tt.ms, left == 0)
			}
		})
	}
}
