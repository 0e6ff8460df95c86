package nodes

import (
	"testing"
	"time"
)

func TestRecent_Percentile(t *testing.T) {
	r := newRecent()
	if got := r.turn(); got != 0 {
		t.Errorf("nothing was counted: %v", got)
	}
	observe := func(n int, d time.Duration) {
		for range n {
			r.observe(d)
		}
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	expect := func(least time.Duration) {
		t.Helper()
		if got := r.turn(); got < ms(least) || got > 1.02*ms(least) {
			t.Errorf("the percentile is %v, want a little more than %v", got, least)
		}
	}
	observe(99, time.Millisecond)
	observe(1, time.Second)
	expect(time.Millisecond)
	observe(1, time.Second) // two of 101
	expect(time.Second)
	observe(200, 2*time.Millisecond)
	for range 5 { // at first 2 of 301 are longer, in the end there are only these
		expect(2 * time.Millisecond)
	}
	if got := r.turn(); got != 0 {
		t.Errorf("the durations of long ago count: %v", got)
	}
}

func TestTally_Totals(t *testing.T) {
	c := NewTally()
	c.Action(time.Second, false)
	c.Action(time.Second, true)
	c.Committed()
	c.Waited(1500 * time.Microsecond)
	c.Waited(1500 * time.Microsecond)
	c.Held(7 * time.Millisecond)
	if got, want := c.Totals(), (Totals{2, 1, 1, 2, 3, 1, 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got := c.Turn()
	if got.Action < 1000 || got.Action > 1130 || got.LockWait < 1.5 || got.LockWait > 1.7 || got.LockHold < 7 || got.LockHold > 8 {
		t.Errorf("%+v", got)
	}
}
