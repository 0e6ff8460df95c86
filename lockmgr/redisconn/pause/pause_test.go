package pause_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redisconn/pause"
)

func TestBackoff_Pauses(t *testing.T) {
	for name, tt := range map[string]struct {
		b    pause.Backoff
		want []time.Duration
	}{
		"doubles up to Max": {pause.Backoff{First: 100, Max: 500}, []time.Duration{100, 200, 400, 500, 500}},
		"first above Max":   {pause.Backoff{First: 900, Max: 500}, []time.Duration{500, 500}},
		"half at random": {pause.Backoff{First: 100, Max: 500, Jitter: .5, Random: func() float64 { return 0 }},
			[]time.Duration{50, 100, 200, 250}},
		"all at random": {pause.Backoff{First: 100, Max: 500, Jitter: 1, Random: func() float64 { return .25 }},
			[]time.Duration{25, 50, 100, 125}},
		"no overflow": {pause.Backoff{First: math.MaxInt64 / 2, Max: math.MaxInt64},
			[]time.Duration{math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time after Reset
				var got []time.Duration
				for range tt.want {
					got = append(got, tt.b.Next())
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("pauses %v, want %v", got, tt.want)
				}
				tt.b.Reset()
			}
		})
	}
}

func TestBackoff_WaitsOrEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := pause.Backoff{First: time.Second, Max: time.Minute, Jitter: .5}, time.Now()
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < time.Second/2 || took > time.Second {
			t.Errorf("waited for %v", took)
		}
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		if err := pause.For(ctx, time.Hour); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
	})
}
