package redistest

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Receive returns what comes from a channel, or nothing if that is closed, and fails the
// test if it has to wait for more than ten seconds, or, in a synctest bubble, an hour of
// its time. It is for the goroutine of the test.
func Receive[T any](tb testing.TB, from <-chan T, what string) T {
	tb.Helper()
	limit := begin(10*time.Second, time.Hour)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case v := <-from:
			return v
		case <-tick.C:
			if limit.passed() {
				inVain.Store(true)
				tb.Fatalf("waited too long for %s", what)
			}
		}
	}
}

// EndInTime fails a test that lasts for more than 30 s, or, in a synctest bubble, five
// hours of its time, and calls end. What the test waits for without a limit has to
// end then: in a bubble, what polls keeps the clock going for ever.
func EndInTime(tb testing.TB, what string, end func()) {
	tb.Helper()
	const interval = 10 * time.Second
	limit := begin(30*time.Second, 5*time.Hour)
	over, stop, ended := time.NewTicker(interval), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer over.Stop()
		for !limit.passed() {
			select {
			case <-over.C:
			case <-stop:
				return
			}
		}
		inVain.Store(true)
		tb.Errorf("the test takes too long: %s", what)
		end()
	}()
	tb.Cleanup(func() { close(stop); <-ended })
}

// limit is a time that has to be enough: in the world, or in a synctest bubble, where
// hours may pass in no time.
type limit struct {
	world  time.Duration // when it passes, since 1970
	bubble time.Time
}

// inVain says that a test of this binary has waited in vain. What it tests is broken, and
// the others need not wait for long to say so, too.
var inVain atomic.Bool

func begin(world, bubble time.Duration) limit {
	if inVain.Load() {
		world = min(world, 5*time.Second)
	}
	return limit{worldTime() + world, time.Now().Add(bubble)}
}

func (l limit) passed() bool { return worldTime() > l.world || time.Now().After(l.bubble) }

// worldTime returns the time since 1970, also in a bubble.
func worldTime() time.Duration {
	var t syscall.Timeval
	_ = syscall.Gettimeofday(&t) // cannot fail
	return time.Duration(t.Nano())
}
