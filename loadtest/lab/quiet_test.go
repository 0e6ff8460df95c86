package lab

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// The README has the legend, and the marks of a quiet machine, which are complete.
func TestReadme_HasTheTable(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	redistest.OK(t, err)
	readme := string(text)
	for line := range strings.Lines(legend + quietText) {
		if !strings.Contains(readme, line) {
			t.Errorf("the README does not have %q", line)
		}
	}
	for _, d := range disciplines {
		marks := quiet[d.name]
		if len(marks) != len(faults) {
			t.Errorf("%s has no marks", d.name)
			continue
		}
		for i, f := range faults {
			if (marks[i] == markNone) == d.has(f.needs...) {
				t.Errorf("%s under %s is %s", d.name, f.name, marks[i])
			}
		}
		for _, l := range d.listed {
			i := slices.IndexFunc(faults, func(f *fault) bool { return f.name == l.fault })
			for _, letter := range letters {
				if letter.what == l.anomaly && !strings.Contains(marks[i], letter.letter) {
					t.Errorf("%s under %s is %s, which is not as listed", d.name, l.fault, marks[i])
				}
			}
		}
	}
}

// What is drawn collides as often as computed, and with the same seed again as often.
func TestDraws(t *testing.T) {
	t.Parallel()
	draws := newDraws(1)
	for i, computed := range []float64{0.0540, 0.3932, 0.9933} {
		d := draws[i]
		if math.Abs(d.Computed-computed) > 0.0005 || math.Abs(d.Simulated-computed) > 0.03 {
			t.Errorf("%+v, want %v", d, computed)
		}
	}
	d := draws[2]
	if same := sameShare(rand.New(rand.NewPCG(1, uint64(d.Values))), d.Values, d.Callers); same != d.Simulated {
		t.Errorf("the same seed gives %v, and %v", same, d.Simulated)
	}
}
