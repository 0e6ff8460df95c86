package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	longest = time.Minute + 30*time.Second // a longer latency counts as this

	// digits are the significant ones of a latency. With two, the histograms of 2,000
	// clients leave room for everything else in the processor's caches.
	digits = 2
)

// tally is the counts of one actor, or of all.
type tally struct {
	actions []int64                 // of each actor, in the measured time
	latency *hdrhistogram.Histogram // in µs
	errors  int64
	first   string // of the errors
	cutOff  int    // actors whose last action was cut off

	took time.Duration // the measured time
	used usage         // in it
}

func newTally() *tally {
	return &tally{latency: hdrhistogram.New(1, longest.Microseconds(), digits)}
}

func (t *tally) record(d time.Duration) {
	_ = t.latency.RecordValue(max(1, min(d, longest).Microseconds())) // never out of range
}

func (t *tally) fail(err error) {
	if t.errors++; t.errors == 1 {
		t.first = err.Error()
	}
}

// join adds the counts of other actors in the same time.
func (t *tally) join(other *tally) {
	t.actions = append(t.actions, other.actions...)
	t.count(other)
}

// extend adds the counts of the same actors in another time.
func (t *tally) extend(later *tally) {
	if t.actions == nil {
		t.actions = make([]int64, len(later.actions))
	}
	for i, n := range later.actions {
		t.actions[i] += n
	}
	t.took += later.took
	t.used = t.used.plus(later.used)
	t.count(later)
}

func (t *tally) count(other *tally) {
	t.latency.Merge(other.latency)
	t.errors += other.errors
	if t.first == "" {
		t.first = other.first
	}
	t.cutOff += other.cutOff
}

// total returns how many actions there were.
func (t *tally) total() (sum int64) {
	for _, n := range t.actions {
		sum += n
	}
	return sum
}

// perSecond returns how many actions there were in a second.
func (t *tally) perSecond() float64 {
	if t.took <= 0 {
		return 0
	}
	return float64(t.total()) / t.took.Seconds()
}

// jain returns Jain's fairness index of xs, (sum x)^2 / (n sum x^2), or 0 if they
// are all zero. (R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness
// and Discrimination for Resource Allocation in Shared Computer Systems", 1984.)
func jain(xs []int64) float64 {
	var sum, squares float64
	for _, x := range xs {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(xs)) * squares)
}
