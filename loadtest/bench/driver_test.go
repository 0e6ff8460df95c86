package bench

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"roomd/loadtest/internal/tally"
	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest"
)

// steady acts for the same time always, as one action or as an error.
type steady struct {
	takes time.Duration
	err   error
}

func (s steady) act(ctx context.Context) error {
	if err := pause.For(ctx, s.takes); err != nil {
		return err
	}
	return s.err
}

// ticking counts its calls in place of what Redis would have used.
func ticking() func(context.Context) (usage, error) {
	n := 0.0
	return func(context.Context) (usage, error) {
		n++
		return usage{commands: n}, nil
	}
}

// In virtual time everything is exact: 500 ms of warm-up, then two seconds.
func TestDrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		actors := []actor{
			steady{takes: 99 * time.Millisecond},
			steady{takes: 7 * time.Second}, // still runs at the end, and is let
			steady{takes: time.Hour},       // is cut off
			steady{takes: 100 * time.Millisecond, err: errRefused},
		}
		start := time.Now()
		got, err := drive(t.Context(), driver{duration: 2 * time.Second, probe: ticking()}, actors)
		redistest.OK(t, err)
		if d := time.Since(start); d != 500*time.Millisecond+2*time.Second+grace {
			t.Errorf("it took %v", d)
		}
		if got.took != 2*time.Second || got.used.commands != 1 {
			t.Errorf("measured for %v, used %+v", got.took, got.used)
		}
		// Actions end at 99, 198, … ms: the 6th to the 25th within the time.
		sum := tally.Sum(got.actors...)
		cutOff := sum.Unknown.Load()
		if all := sum.Done.Load(); got.actors[0].Done.Load() != 20 || all != 20 || cutOff != 1 || sum.FirstError() == nil || sum.FirstError().Error() != errRefused.Error() {
			t.Errorf("%d actions, %d cut off, the first error: %v", all, cutOff, sum.FirstError())
		}
		// Those 20, the one under way at the end, the slow one and the cut one.
		if curve := sum.Curve(); curve[len(curve)-1].Count != 23 {
			t.Errorf("latencies: %v", curve)
		}
		if l := sum.Latency(); math.Abs(float64(l.P50)-99) > 2 || math.Abs(float64(l.Max)-12500) > 200 {
			t.Errorf("latency %+v", l)
		}
	})
}

// An action that takes longer than the measurement is waited for. Pauses are in the time, but not in the latency.
func TestDrive_LongActionsAndPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := drive(t.Context(), driver{duration: time.Second, probe: ticking()}, []actor{steady{takes: 3 * time.Second}})
		if n := got.actors[0].Done.Load(); err != nil || n != 1 || got.took != 2750*time.Millisecond {
			t.Errorf("%d actions in %v, %v", n, got.took, err)
		}
		got, err = drive(t.Context(), driver{duration: 100 * time.Second, pace: time.Second, probe: ticking()}, []actor{steady{takes: 10 * time.Millisecond}})
		if n, l := got.actors[0].Done.Load(), got.actors[0].Latency(); err != nil || n < 50 || n > 200 || l.Max > 11 {
			t.Errorf("%d actions in %v, %+v, %v", n, got.took, l, err)
		}
	})
}

// There is no measurement if it is stopped, or if its meter fails.
func TestDrive_Stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blind := func(context.Context) (usage, error) { return usage{}, errRefused }
		if _, err := drive(t.Context(), driver{duration: time.Second, probe: blind}, []actor{steady{takes: time.Second}}); !errors.Is(err, errRefused) {
			t.Errorf("%v", err)
		}
		for _, after := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			start := time.Now()
			_, err := drive(ctx, driver{duration: 10 * time.Second, probe: ticking()}, []actor{steady{takes: time.Second}})
			cancel()
			if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d != after {
				t.Errorf("stopped after %v: %v after %v", after, err, d)
			}
		}
	})
}
