package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest/launch"
)

// OK ends the test if err is not nil. tb is a testing.TB or a rapid.T. Call OK in the test's goroutine.
func OK(tb interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// reporter is a testing.TB or a rapid.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// Err returns the error of a call with two results.
func Err[T any](_ T, err error) error { return err }

// Equal fails the test unless got is want. The message starts with what: "the lock holds".
func Equal[T comparable](tb reporter, what string, got, want T) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s %#v, want %#v", what, got, want)
	}
}

// ErrorIs fails the test unless err is or wraps target. The message starts with what: "a second Release".
func ErrorIs(tb reporter, what string, err, target error) {
	tb.Helper()
	if !errors.Is(err, target) {
		tb.Errorf("%s: %v, want %v", what, err, target)
	}
}

// ErrorSays is like ErrorIs, and also fails the test unless the error's text contains says.
func ErrorSays(tb reporter, what string, err, target error, says string) {
	tb.Helper()
	if !errors.Is(err, target) || !strings.Contains(fmt.Sprint(err), says) {
		tb.Errorf("%s: %v, want %v that says %q", what, err, target, says)
	}
}

// ErrorIf fails the test with that message if wrong is true.
func ErrorIf(tb reporter, wrong bool, format string, args ...any) {
	tb.Helper()
	if wrong {
		tb.Errorf(format, args...)
	}
}

// FatalIf is like ErrorIf, and ends the test. Call it in the test's goroutine.
func FatalIf(tb interface {
	Helper()
	Fatalf(format string, args ...any)
}, wrong bool, format string, args ...any) {
	tb.Helper()
	if wrong {
		tb.Fatalf(format, args...)
	}
}

// Receive returns the next value of a channel, or the zero value if it is closed. It fails the test after at most ten
// seconds, or an hour in the time of a synctest bubble. Call it in the test's goroutine.
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

// Until calls is() until it returns true. It fails the test after at most twenty seconds, or an hour in the time of a
// synctest bubble. Call it in the test's goroutine.
func Until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	limit := begin(20*time.Second, time.Hour)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		if <-tick.C; limit.passed() {
			inVain.Store(true)
			tb.Fatalf("waited too long until %s", what)
		}
	}
}

// EndInTime fails a test that lasts longer than 30 s, or five hours in the time of a synctest bubble. It then calls
// end, which has to end all unlimited waiting: in a bubble the clock goes on for ever while something polls.
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

// limit is when a test has waited for too long: in real time, or in the time of a synctest bubble, where hours
// may pass at once.
type limit struct {
	world  time.Duration // since 1970
	bubble time.Time
}

// inVain says that a test of this binary has waited in vain. Something is broken then, so the other tests wait
// for a shorter time.
var inVain atomic.Bool

func begin(world, bubble time.Duration) limit {
	if inVain.Load() {
		world = min(world, 5*time.Second)
	}
	return limit{worldTime() + world, time.Now().Add(bubble)}
}

func (l limit) passed() bool { return worldTime() > l.world || time.Now().After(l.bubble) }

// worldTime returns the real time since 1970, also in a bubble.
func worldTime() time.Duration {
	var t syscall.Timeval
	_ = syscall.Gettimeofday(&t) // cannot fail
	return time.Duration(t.Nano())
}

// stateTimeout bounds the wait for a state of several servers.
const stateTimeout = time.Minute

// waitFor polls until look returns nil. After too long it fails the test with the last error.
func waitFor(tb testing.TB, what string, look func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	if err := launch.Await(ctx, look); err != nil {
		tb.Fatalf("waited %v for %s: %v", stateTimeout, what, err)
	}
}

// Log keeps all writes. It is safe for concurrent use. The zero value is empty.
type Log struct {
	mu  sync.Mutex
	all bytes.Buffer // guarded by mu
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// String returns the text of all writes so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
