package main

import (
	"encoding/json"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally is what goroutines have counted.
type tally struct {
	Holds      []int64       // of each goroutine
	Waits      waits         // of acquires that succeeded
	CutOff     int           // acquires that still waited at the end
	LongestCut time.Duration // how long the one of them had waited that had waited longest
	Violations int64         // holds that were not alone
	Faults     int64
	FirstFault string
	Hung       int // goroutines that did not return
}

func newTally() tally { return tally{Waits: newWaits()} }

func (t *tally) waited(d time.Duration) { t.Waits.record(d) }

func (t *tally) cutOff(d time.Duration) {
	t.CutOff++
	t.LongestCut = max(t.LongestCut, d)
}

func (t *tally) add(more tally) {
	t.Holds = append(t.Holds, more.Holds...)
	t.Waits.Merge(more.Waits.Histogram)
	t.CutOff += more.CutOff
	t.LongestCut = max(t.LongestCut, more.LongestCut)
	t.Violations += more.Violations
	t.Faults += more.Faults
	if t.FirstFault == "" {
		t.FirstFault = more.FirstFault
	}
	t.Hung += more.Hung
}

func (t *tally) total() int64 {
	var sum int64
	for _, holds := range t.Holds {
		sum += holds
	}
	return sum
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

const (
	longest = time.Minute // longer waits count as this long
	digits  = 3
)

// waits is a histogram of durations in microseconds, which can be sent as JSON.
type waits struct{ *hdrhistogram.Histogram }

func newWaits() waits {
	return waits{hdrhistogram.New(1, longest.Microseconds(), digits)}
}

func (w waits) record(d time.Duration) {
	_ = w.RecordValue(min(d, longest).Microseconds()) // cannot be out of range
}

// millis returns the wait at a percentile.
func (w waits) millis(percentile float64) float64 {
	return float64(w.ValueAtPercentile(percentile)) / 1000
}

func (w waits) MarshalJSON() ([]byte, error) {
	data, err := w.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

func (w *waits) UnmarshalJSON(text []byte) error {
	var data []byte
	err := json.Unmarshal(text, &data)
	if err == nil {
		w.Histogram, err = hdrhistogram.Decode(data)
	}
	return err
}
