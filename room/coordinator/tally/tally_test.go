package tally

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A duration lies in its bucket, and the bucket is at most an eighth of it wide.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "duration"))
		bucket := bucketOf(d)
		if end := endOf(bucket); end <= d || bucket > 0 && endOf(bucket-1) > d {
			t.Fatalf("%v is in bucket %d, from %v to %v", d, bucket, endOf(bucket-1), end)
		}
		if wide := endOf(bucket) - d; wide > max(time.Microsecond, d/8) {
			t.Fatalf("%v is said to be %v", d, endOf(bucket))
		}
	})
	for _, d := range []time.Duration{-time.Second, 1 << 62} {
		if b := bucketOf(d); b < 0 || b >= buckets {
			t.Errorf("%v is in bucket %d", d, b)
		}
	}
}

func TestPercentileOfTheLastTurns(t *testing.T) {
	var r Recent
	if got := r.turn(); got != 0 {
		t.Errorf("nothing was counted: %v", got)
	}
	observe := func(n int, d time.Duration) {
		for range n {
			r.Observe(d)
		}
	}
	expect := func(least time.Duration) {
		t.Helper()
		if got := r.turn(); got <= least || got > least+least/8+time.Microsecond {
			t.Errorf("the percentile is %v, want a little more than %v", got, least)
		}
	}
	observe(99, time.Millisecond)
	observe(1, time.Second)
	expect(time.Millisecond)
	observe(1, time.Second) // two of 101
	expect(time.Second)
	observe(200, 2*time.Millisecond)
	for range turns { // at first 2 of 301 are longer, in the end there are only these
		expect(2 * time.Millisecond)
	}
	if got := r.turn(); got != 0 {
		t.Errorf("the durations of long ago count: %v", got)
	}
}

func TestTotals(t *testing.T) {
	var c Tally
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

func BenchmarkAction(b *testing.B) {
	var c Tally
	b.ReportAllocs()
	for b.Loop() {
		c.Action(time.Millisecond, false)
	}
}
