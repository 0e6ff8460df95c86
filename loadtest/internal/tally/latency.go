package tally

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest/report"
)

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
