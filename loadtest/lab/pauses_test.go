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

// bubbled is a caller of a discipline in a synctest bubble, which begins with a second, on a Redis whose keys expire by its
// clock. held is the lock's value, "" for none.
func bubbled(t *testing.T, d *discipline, second time.Duration, held any) (*caller, *redis.Client) {
	t.Helper()
	_, rdb := redistest.Mini(t)
	x := newCell(&lab{redis: rdb, run: "bubble"}, d, faults[0], second)
	p, err := newProcess(x, "1", nil)
	redistest.OK(t, err)
	t.Cleanup(p.stop)
	c := &caller{process: p, user: victimUser, asked: time.Now()}
	if held != "" {
		redistest.OK(t, rdb.Set(t.Context(), x.lockKey, held, 0).Err())
	}
	return c, rdb
}

// endless is a lock of timestamp whose time does not come.
const endless = "99999999999999:1"

// note returns the times at which the caller sends a command.
func note(c *caller, command string) *[]time.Duration {
	var mu sync.Mutex
	at := new([]time.Duration)
	begun := time.Now()
	c.process.rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.EqualFold(cmd.Name(), command) {
			*at = append(*at, time.Since(begun))
		}
		return nil
	}})
	return at
}

// A caller that finds the lock taken asks again after its article's pause, or after 5 ms where the article has none. Only pauses
// published in seconds are scaled.
func TestPauses(t *testing.T) {
	paths, pauses := readPublished(t)
	for _, d := range disciplines {
		pause := pauses[d.name]
		if pause == 0 || d.inHash { // hsetnx asks as setnx does
			continue
		}
		first := paths[slices.IndexFunc(paths, func(p path) bool { return p.discipline == d.name })]
		command, _, _ := strings.Cut(first.want, " ")
		for _, second := range []time.Duration{time.Second, LeastSecond} {
			synctest.Test(t, func(t *testing.T) {
				held := endless
				if d.counts {
					held = "1"
				}
				c, _ := bubbled(t, d, second, held)
				step := pause
				if d.has(stepLooking) {
					step = step * second / time.Second
				}
				asked := note(c, command)
				ctx, cancel := context.WithTimeout(t.Context(), 3*step+step/2)
				defer cancel()
				if err := d.lock.acquire(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s ends with %v", d.name, err)
				}
				if want := []time.Duration{0, step, 2 * step, 3 * step}; !slices.Equal(*asked, want) {
					t.Errorf("%s asks at %v, want %v", d.name, *asked, want)
				}
			})
		}
	}
}

// By its clock of whole seconds a caller waits for 4 to 5 s, depending on when in a second it begins: then the outcome is 0, an
// error for the cache's caller, unless it may look once more. A time is past when it is before now, in whole seconds.
func TestTimestamp_WholeSeconds(t *testing.T) {
	for d, command := range map[*discipline]string{named("timestamp"): "GET", named("timestamp-first"): "SETNX"} {
		for begins, asksFor := range map[time.Duration]int{0: 50, 500 * time.Millisecond: 45, 950 * time.Millisecond: 41} {
			synctest.Test(t, func(t *testing.T) {
				c, _ := bubbled(t, d, time.Second, endless)
				time.Sleep(begins)
				asked := note(c, command)
				if got, err := d.lock.ask(t.Context(), c); got != timedOut || err != nil || len(*asked) != asksFor {
					t.Errorf("%s from %v on: %v, %v, after %d times; want %d", d.name, begins, got, err, len(*asked), asksFor)
				}
			})
		}
		for there, want := range map[bool]error{false: errNoValue, true: nil} {
			synctest.Test(t, func(t *testing.T) {
				c, rdb := bubbled(t, d, time.Second, endless)
				if !d.lock.looksAfterTimeout {
					want = errTimedOut
				}
				e := new(entry).in(c.x)
				if there {
					time.AfterFunc(3*time.Second, func() { rdb.Set(t.Context(), e.value, newValue, 0) })
				}
				if _, err := e.get(t.Context(), c); !errors.Is(err, want) {
					t.Errorf("%s, with the value there %t: %v, want %v", d.name, there, err, want)
				}
				synctest.Wait()
			})
		}
		synctest.Test(t, func(t *testing.T) {
			c, _ := bubbled(t, d, time.Second, fmt.Sprintf("%d:1", time.Now().Unix()))
			got, err := d.lock.ask(t.Context(), c)
			if took := time.Since(c.asked); got != acquired || err != nil || took != time.Second {
				t.Errorf("%s: %v, %v, after %v; want the lock after a second", d.name, got, err, took)
			}
		})
	}
}

// TTL rounds to the nearest second, also in milliseconds, and numbers are drawn from the published ranges, ends included.
func TestHasTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := bubbled(t, named("timestamp"), LeastSecond, "")
		for ms, want := range map[int]bool{150: true, 50: true, 49: false, 1: false, 0: true, -1: true} { // 0: no expiry; -1: no lock
			rdb.Set(t.Context(), c.x.lockKey, "x", time.Duration(max(0, ms))*time.Millisecond)
			if ms < 0 {
				rdb.Del(t.Context(), c.x.lockKey)
			}
			if has, err := hasTime(t.Context(), c); has != want || err != nil {
				t.Errorf("with %d ms of a second of %v, it has time: %t; %v", ms, LeastSecond, has, err)
			}
		}
		seen := make(map[string]bool)
		for range 1000 {
			drawNumber(7, 9)(c)
			seen[c.value] = true
		}
		if len(seen) != 3 || !seen["7"] || !seen["9"] {
			t.Errorf("from 7 to 9: %v", seen)
		}
	})
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
			c, rdb := bubbled(t, tt.d, time.Second, time.Now().UnixMilli()+tt.ms)
			redistest.OK(t, tt.d.lock.unlock(t.Context(), c))
			if left := rdb.Exists(t.Context(), c.x.lockKey).Val(); (left == 0) != tt.gone {
				t.Errorf("%s: a lock of %d ms after now: gone %t", tt.d.name, tt.ms, left == 0)
			}
		})
	}
}
