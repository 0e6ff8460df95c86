package tally

import (
	"errors"
	"maps"
	"math"
	"testing"
	"time"
)

func TestJain(t *testing.T) {
	for _, test := range []struct {
		actions []int64
		want    float64
	}{
		{nil, 0},
		{[]int64{0, 0}, 0},
		{[]int64{7}, 1},
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{9, 0, 0, 0}, 0.25},
		{[]int64{1, 3}, 0.8},
	} {
		if got := Jain(test.actions); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("Jain(%v) = %v, want %v", test.actions, got, test.want)
		}
	}
}

func one(done, unknown int64, latency time.Duration, errs ...error) *Tally {
	t := new(Tally)
	t.Done.Store(done)
	t.Unknown.Store(unknown)
	t.Record(latency)
	for _, err := range errs {
		t.Fail(err)
	}
	return t
}

var errBroken = errors.New("broken")

func TestTally_Sum(t *testing.T) {
	got := Sum(one(1, 0, time.Millisecond), one(2, 0, 2*time.Millisecond, errBroken, errors.New("other")),
		one(0, 1, 2*Longest), one(0, 1, 2*time.Millisecond, errBroken), one(1, 3, 2*time.Millisecond))
	if got.Done.Load() != 4 || got.Unknown.Load() != 5 {
		t.Errorf("%d done, %d unknown", got.Done.Load(), got.Unknown.Load())
	}
	n, texts := got.Errors()
	if n != 3 || !maps.Equal(texts, map[string]int64{"broken": 2, "other": 1}) || got.FirstError().Error() != "broken" {
		t.Errorf("%d errors, %v, the first: %v", n, texts, got.FirstError())
	}
	if l := got.Latency(); math.Abs(float64(l.P50)-2) > 0.05 || math.Abs(float64(l.Max)/float64(Longest.Milliseconds())-1) > 0.01 || got.Curve()[len(got.Curve())-1].Count != 5 {
		t.Errorf("latency %+v of %v", l, got.Curve())
	}
	if empty := new(Tally); empty.Latency().P99.IsKnown() || empty.FirstError() != nil {
		t.Error("nothing was counted, and yet there are figures")
	}
}

// Errors that are all different do not fill the memory, and are counted all the same.
func TestTally_ManyErrors(t *testing.T) {
	each := new(Tally)
	for i := range 100 {
		each.Fail(errors.New(time.Duration(i).String()))
	}
	n, texts := Sum(each, each).Errors()
	if n != 200 || len(texts) != maxTexts {
		t.Errorf("%d errors, %d texts", n, len(texts))
	}
}
