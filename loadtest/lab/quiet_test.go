package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The marks of a quiet machine are complete, and what is listed is among them.
func TestQuiet(t *testing.T) {
	for _, d := range disciplines {
		for _, f := range faults {
			if marks := quiet(d.name, f.name); marks == "" || (marks == markNone) == d.has(f.needs...) {
				t.Errorf("%s under %s is %q", d.name, f.name, marks)
			}
		}
		for _, l := range d.listed {
			for _, letter := range letters {
				if letter.what == l.Anomaly && !strings.Contains(quiet(d.name, l.Fault), letter.letter) {
					t.Errorf("%s under %s is not as listed", d.name, l.Fault)
				}
			}
		}
	}
}

// How likely two of 1,000 callers draw the same is computed from what they draw.
func TestSameToken_Chances(t *testing.T) {
	about := faults[slices.IndexFunc(faults, func(f *fault) bool { return f.name == "same-token" })].about
	for what, values := range map[string]float64{"timestamp's number": timestampHigh - timestampLow + 1, "uniqid, within a second": 1e6, "set-rand-lua's number": 100_000} {
		differ := 1.0
		for i := range 1000 {
			differ *= 1 - float64(i)/values
		}
		if want := fmt.Sprintf("%.1f %% (%s)", 100*(1-differ), what); !strings.Contains(about, want) {
			t.Errorf("%q does not say %q", about, want)
		}
	}
}
