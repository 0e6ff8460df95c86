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

func one(action string, o Outcome, latency time.Duration, errs ...error) *Tally {
	t := new(Tally)
	t.Count(action, o)
	t.Record(latency)
	for _, err := range errs {
		t.Fail(err)
	}
	return t
}

var errBroken = errors.New("broken")

func TestTally_Sum(t *testing.T) {
	got := Sum(one("join", Done, time.Millisecond),
		one("join", Conflict, 2*time.Millisecond, errBroken, errors.New("other")), one("busy", Refused, 2*Longest),
		one("users", Done, 2*time.Millisecond, errBroken), one("join", Unknown, 2*time.Millisecond))
	if join := got.Of("join"); join != (Counts{Done: 1, Conflicts: 1, Unknown: 1}) {
		t.Errorf("join: %+v", join)
	}
	if busy := got.Of("busy"); busy != (Counts{Refused: 1}) || got.Of("none") != (Counts{}) {
		t.Errorf("busy: %+v", busy)
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
