package session

import (
	"roomd/lockmgr/redistest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBucket_Takes(t *testing.T) {
	const ms = time.Millisecond
	var b gcra
	p := newRateLimit(50, 3) // one in 20 ms
	for _, step := range []struct{ at, wait time.Duration }{
		{0, 0}, {0, 0}, {0, 0}, // the burst
		{0, 20 * ms}, {0, 20 * ms}, // what is refused does not count
		{20*ms - 1, 1},
		{20 * ms, 0}, // exactly at the limit
		{20 * ms, 20 * ms},
		{40 * ms, 0}, {60 * ms, 0}, {80 * ms, 0}, // at the rate, for as long as one likes
		{99 * ms, ms},
		{time.Hour, 0}, {time.Hour, 0}, {time.Hour, 0}, // a pause saves no more than the burst
		{time.Hour, 20 * ms},
	} {
		if wait := b.take(p, step.at); wait != step.wait {
			t.Errorf("at %v: wait %v, want %v", step.at, wait, step.wait)
		}
	}
	b.undo(p)
	redistest.Equal(t, "what was given back is not there: wait", b.take(p, time.Hour), 0)
	redistest.Equal(t, "the backlog is", b.backlog(time.Hour), 60*ms)
	redistest.Equal(t, "later the backlog is", b.backlog(2*time.Hour), 0)
	for range 10_000 {
		if wait := b.take(rateLimit{}, 0); wait != 0 {
			t.Fatalf("without a limit: wait %v", wait)
		}
	}
}

// In no span of time more happens than the burst and what the rate allows, and who waits as told is
// not refused again.
func TestBucket_KeepsThePace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond, burst := rapid.IntRange(1, 2000).Draw(t, "rate"), rapid.IntRange(1, 50).Draw(t, "burst")
		var b gcra
		p := newRateLimit(perSecond, burst)
		var now time.Duration
		var taken []time.Duration
		for range 200 {
			wait := b.take(p, now)
			if wait > 0 && rapid.Bool().Draw(t, "wait") {
				now += wait
				if again := b.take(p, now); again != 0 {
					t.Fatalf("told to wait %v, and then %v", wait, again)
				}
				wait = 0
			}
			if wait == 0 {
				taken = append(taken, now)
			}
			now += time.Duration(rapid.Int64Range(0, int64(2*p.interval)).Draw(t, "pause"))
		}
		for i := range taken {
			for j := i + 1; j < len(taken); j++ {
				span := taken[j] - taken[i]
				if allowed := burst + int(span/p.interval); j-i+1 > allowed {
					t.Fatalf("%d within %v, %d are allowed", j-i+1, span, allowed)
				}
			}
		}
	})
}

// All connections of a user take from one count at the same time.
func TestBucket_AtOnce(t *testing.T) {
	const burst = 2_000_000
	var b gcra
	p := newRateLimit(1, burst)
	var taken atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			<-start
			for range burst / 2 {
				if b.take(p, 0) == 0 {
					taken.Add(1)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	redistest.ErrorIf(t, taken.Load() != burst, "%d were taken, want %d", taken.Load(), burst)
}
