// Package tally counts the results of many actions: how many, their latency, and errors.
package tally

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest/report"
)

const (
	// Longest is the largest latency; longer ones count as this.
	Longest = 5 * time.Minute

	// digits is the number of significant digits of a latency. With two, the histograms of 2,000 clients leave
	// room for everything else in the processor's caches.
	digits = 2

	maxTexts = 20 // of errors; further errors are only counted
)

// Tally has the results of one actor, or of many. The zero value is empty. It is safe for concurrent use.
type Tally struct {
	Done, Unknown atomic.Int64 // actions that were acknowledged, and that may or may not have happened

	mu      sync.Mutex
	latency *hdrhistogram.Histogram // guarded by mu; in µs
	errors  int64                   // guarded by mu
	texts   map[string]int64        // guarded by mu; number of errors by text
	first   string                  // guarded by mu; the first error
}

// lock locks t.mu, and initializes the zero value.
func (t *Tally) lock() {
	t.mu.Lock()
	if t.latency == nil {
		t.texts, t.latency = make(map[string]int64), hdrhistogram.New(1, Longest.Microseconds(), digits)
	}
}

// Sum returns the sum of all tallies.
func Sum(all ...*Tally) *Tally {
	sum := new(Tally)
	for _, t := range all {
		sum.AddErrors(t)
		sum.Done.Add(t.Done.Load())
		sum.Unknown.Add(t.Unknown.Load())
		t.mu.Lock()
		sum.latency.Merge(t.latency)
		t.mu.Unlock()
	}
	return sum
}

// Record counts how long an action took.
func (t *Tally) Record(d time.Duration) {
	t.lock()
	defer t.mu.Unlock()
	_ = t.latency.RecordValue(max(1, min(d, Longest).Microseconds())) // never out of range
}

// Fail counts an error.
func (t *Tally) Fail(err error) {
	t.lock()
	defer t.mu.Unlock()
	t.failLocked(err.Error(), 1)
}

func (t *Tally) failLocked(text string, n int64) {
	t.errors += n
	if t.first == "" {
		t.first = text
	}
	if t.texts[text] > 0 || len(t.texts) < maxTexts {
		t.texts[text] += n
	}
}

// AddErrors adds the errors of another tally.
func (t *Tally) AddErrors(other *Tally) {
	other.lock()
	defer other.mu.Unlock()
	t.lock()
	defer t.mu.Unlock()
	if t.first == "" {
		t.first = other.first
	}
	known := t.errors
	for text, n := range other.texts {
		t.failLocked(text, n)
	}
	t.errors = known + other.errors // including those without a text
}

// Errors returns the number of errors, and how often some texts came.
func (t *Tally) Errors() (n int64, texts map[string]int64) {
	t.lock()
	defer t.mu.Unlock()
	return t.errors, maps.Clone(t.texts)
}

// FirstError returns one of the first errors, or nil.
func (t *Tally) FirstError() error {
	t.lock()
	defer t.mu.Unlock()
	if t.errors == 0 {
		return nil
	}
	return errors.New(t.first)
}

// Latency is in milliseconds. All are unknown if no action was recorded.
type Latency struct {
	P50  report.Figure `json:"p50"`
	P90  report.Figure `json:"p90"`
	P99  report.Figure `json:"p99"`
	P999 report.Figure `json:"p999"`
	Max  report.Figure `json:"max"`
}

// Latency returns how long the recorded actions took.
func (t *Tally) Latency() Latency {
	t.lock()
	defer t.mu.Unlock()
	ms := func(percentile float64) report.Figure {
		return report.Per(float64(t.latency.ValueAtPercentile(percentile))/1000,
			min(1, float64(t.latency.TotalCount())))
	}
	return Latency{P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), Max: ms(100)}
}

// Curve returns the latency by percentile, in µs, for a chart.
func (t *Tally) Curve() []hdrhistogram.Bracket {
	t.lock()
	defer t.mu.Unlock()
	return t.latency.CumulativeDistribution()
}

// Jain returns Jain's fairness index of xs, (sum x)^2 / (n sum x^2), or 0 if they
// are all zero. (R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness
// and Discrimination for Resource Allocation in Shared Computer Systems", 1984.)
func Jain(xs []int64) float64 {
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
