package report

import (
	"math"
	"testing"
)

func TestFigures(t *testing.T) {
	for _, test := range []struct {
		f          Figure
		text, json string
	}{
		{Per(123456.7, 10), "12345.7", "12350"},
		{Per(0.000123456, 1), "0.0", "0.0001235"},
		{Per(0, 5), "0.0", "0"},
		{Per(5, 0), "–", "null"},
		{Per(math.NaN(), 5), "–", "null"},
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

func TestMedian(t *testing.T) {
	for want, list := range map[Figure][]Figure{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7}} {
		if got := Median(list); got != want {
			t.Errorf("%v: %v", list, got)
		}
	}
	if !math.IsNaN(float64(Median[Figure](nil))) {
		t.Error("a median of nothing")
	}
}
