package tally

import (
	"bytes"
	"encoding/gob"

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
		return report.Per(float64(t.latency.ValueAtPercentile(percentile))/1000, min(1, float64(t.latency.TotalCount())))
	}
	return Latency{P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), Max: ms(100)}
}

// Recorded returns how many latencies were recorded.
func (t *Tally) Recorded() int64 {
	t.lock()
	defer t.mu.Unlock()
	return t.latency.TotalCount()
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

// wire is a Tally on its way from one process to another.
type wire struct {
	Counts  map[string]*Counts
	Latency *hdrhistogram.Snapshot
	Errors  int64
	Texts   map[string]int64
	First   string
}

// GobEncode is called by encoding/gob.
func (t *Tally) GobEncode() ([]byte, error) {
	t.lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(wire{t.counts, t.latency.Export(), t.errors, t.texts, t.first})
	return b.Bytes(), err
}

// GobDecode is called by encoding/gob.
func (t *Tally) GobDecode(data []byte) error {
	w := wire{Counts: make(map[string]*Counts), Texts: make(map[string]int64)}
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&w); err != nil {
		return err
	}
	t.lock()
	defer t.mu.Unlock()
	t.counts, t.latency, t.errors, t.texts, t.first = w.Counts, hdrhistogram.Import(w.Latency), w.Errors, w.Texts, w.First
	return nil
}
