package bench

import (
	"math"
	"slices"
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
		if got := jain(test.actions); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("jain(%v) = %v, want %v", test.actions, got, test.want)
		}
	}
}

func one(actions int64, latency time.Duration, errs ...error) *tally {
	t := newTally()
	t.actions = []int64{actions}
	t.record(latency)
	for _, err := range errs {
		t.fail(err)
	}
	return t
}

func TestTallies(t *testing.T) {
	sum := newTally()
	for range 2 { // the same three actors, twice
		turn := newTally()
		turn.join(one(1, time.Millisecond))
		turn.join(one(2, 2*time.Millisecond, errRefused))
		turn.join(one(3, time.Hour))
		turn.took, turn.used = time.Second, usage{1, 2, 3, 4, 5}
		sum.extend(turn)
	}
	if !slices.Equal(sum.actions, []int64{2, 4, 6}) || sum.total() != 12 || sum.perSecond() != 6 {
		t.Errorf("%v in %v", sum.actions, sum.took)
	}
	if sum.used != (usage{2, 4, 6, 8, 10}) || sum.errors != 2 || sum.first != errRefused.Error() {
		t.Errorf("used %v, %d errors, the first: %s", sum.used, sum.errors, sum.first)
	}
	l := newLatency(sum.latency)
	if math.Abs(float64(l.P50)-2) > 0.05 || math.Abs(float64(l.Max)-float64(longest.Milliseconds())) > 1000 {
		t.Errorf("latency %+v", l)
	}
	if newTally().perSecond() != 0 || newLatency(newTally().latency).P99.IsKnown() {
		t.Error("nothing was counted, and yet there are figures")
	}
}

func TestFigures(t *testing.T) {
	for _, test := range []struct {
		f          Figure
		text, json string
	}{
		{per(123456.7, 10), "12345.7", "12350"},
		{per(0.000123456, 1), "0.0", "0.0001235"},
		{per(0, 5), "0.0", "0"},
		{per(5, 0), "–", "null"},
		{per(math.NaN(), 5), "–", "null"},
	} {
		data, err := test.f.MarshalJSON()
		if got := test.f.Text("%.1f"); got != test.text || string(data) != test.json || err != nil {
			t.Errorf("%v is %q and %s, %v; want %q and %s", float64(test.f), got, data, err, test.text, test.json)
		}
		var back Figure
		if err := back.UnmarshalJSON(data); err != nil || back.IsKnown() != test.f.IsKnown() {
			t.Errorf("%s is read as %v, %v", data, float64(back), err)
		}
	}
}
