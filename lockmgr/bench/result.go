package main

import (
	"fmt"
	"strings"
	"time"
)

// result is how one contender did in one workload. Times of waiting are in
// milliseconds.
type result struct {
	Workload  string `json:"workload"`
	Contender string `json:"contender"`

	Holds           int64   `json:"holds"`
	HoldsPerSecond  float64 `json:"holds_per_second"`
	WaitP50         float64 `json:"wait_p50_ms"`
	WaitP90         float64 `json:"wait_p90_ms"`
	WaitP99         float64 `json:"wait_p99_ms"`
	WaitP999        float64 `json:"wait_p999_ms"`
	WaitMax         float64 `json:"wait_max_ms"` // of all acquires, those cut off too
	CutOff          int     `json:"cut_off"`     // acquires that still waited at the end
	LongestCutOff   float64 `json:"longest_cut_off_ms"`
	Jain            float64 `json:"jain"`
	CommandsPerHold float64 `json:"commands_per_hold"`
	ReadsPerHold    float64 `json:"reads_per_hold"`
	RedisMicros     float64 `json:"redis_cpu_us_per_hold"`
	GoroutineHolds  []int64 `json:"holds_of_goroutines"`

	Stalled       bool   `json:"stalled"` // not one hold
	Hung          int    `json:"hung"`    // goroutines that did not return
	Violations    int64  `json:"violations"`
	VerifiedHolds int64  `json:"verified_holds"` // in the pass with marks in Redis
	Faults        int64  `json:"faults"`
	FirstFault    string `json:"first_fault,omitempty"`
	Error         string `json:"error,omitempty"`
}

func newResult(load workload, who contender, took time.Duration, t tally, used usage, err error) result {
	r := result{
		Workload:       load.name,
		Contender:      who.name,
		Holds:          t.total(),
		WaitP50:        t.Waits.millis(50),
		WaitP90:        t.Waits.millis(90),
		WaitP99:        t.Waits.millis(99),
		WaitP999:       t.Waits.millis(99.9),
		CutOff:         t.CutOff,
		LongestCutOff:  millis(t.LongestCut),
		Jain:           jain(t.Holds),
		GoroutineHolds: t.Holds,
		Hung:           t.Hung,
		Violations:     t.Violations,
		Faults:         t.Faults,
		FirstFault:     t.FirstFault,
	}
	r.WaitMax = max(float64(t.Waits.Max())/1000, r.LongestCutOff)
	r.HoldsPerSecond = float64(r.Holds) / took.Seconds()
	if r.Holds > 0 {
		r.CommandsPerHold = used.Commands / float64(r.Holds)
		r.ReadsPerHold = used.Reads / float64(r.Holds)
		r.RedisMicros = float64(used.CPU.Microseconds()) / float64(r.Holds)
	}
	r.fail(err)
	r.Stalled = r.Holds == 0 && err == nil
	return r
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// verified adds what the pass with marks in Redis has found.
func (r *result) verified(t tally, err error) {
	r.VerifiedHolds = t.total()
	r.Violations += t.Violations
	r.Hung += t.Hung
	r.Faults += t.Faults
	if r.FirstFault == "" {
		r.FirstFault = t.FirstFault
	}
	if err != nil {
		r.fail(fmt.Errorf("verification: %w", err))
	}
}

// fail notes that the contender could not be measured to the end.
func (r *result) fail(err error) {
	if err != nil && r.Error == "" {
		r.Error = err.Error()
	}
}

// String returns the result in a line.
func (r result) String() string {
	text := fmt.Sprintf("%.0f holds/s", r.HoldsPerSecond)
	if remarks := r.remarks(); len(remarks) > 0 {
		text += "; " + strings.Join(remarks, "; ")
	}
	return text
}

// remarks returns what the numbers do not say.
func (r result) remarks() (list []string) {
	if r.Error != "" {
		list = append(list, "FAILED: "+r.Error)
	}
	if r.Stalled {
		list = append(list, "STALLED: not one hold")
	}
	if r.Violations > 0 {
		list = append(list, fmt.Sprintf("VIOLATED: %d holds were not alone", r.Violations))
	}
	if r.Hung > 0 {
		list = append(list, fmt.Sprintf("%d goroutines did not return", r.Hung))
	}
	if r.Faults > 0 {
		list = append(list, fmt.Sprintf("%d errors, the first: %s", r.Faults, r.FirstFault))
	}
	if starved := r.starved(); starved > 0 && !r.Stalled {
		list = append(list, fmt.Sprintf("%d goroutines never held it", starved))
	}
	return list
}

// starved returns how many goroutines had not one hold.
func (r result) starved() (n int) {
	for _, holds := range r.GoroutineHolds {
		if holds == 0 {
			n++
		}
	}
	return n
}
