package bench

import (
	"fmt"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is the outcome of one contender in one workload.
type Result struct {
	ActionsPerSec Figure  `json:"actions_per_s"`
	Latency       Latency `json:"latency_ms"`
	Commands      Figure  `json:"commands_per_action"`     // of Redis, including those in scripts
	RedisCPU      Figure  `json:"redis_cpu_us_per_action"` // of redis-server, user and system
	OwnCPU        Figure  `json:"own_cpu_us_per_action"`   // of this process: nodes and clients
	Jain          Figure  `json:"jain"`                    // of the clients' numbers of actions
	Allocs        Figure  `json:"allocs_per_action"`       // of this process

	ToArticle *Ratio `json:"to_article,omitempty"`
	ToSadd    *Ratio `json:"to_sadd,omitempty"`

	Violations Violations `json:"violations"`
	Details    []string   `json:"details,omitempty"` // the first violations
	Errors     int64      `json:"errors"`            // actions that failed
	FirstError string     `json:"first_error,omitempty"`
	CutOff     int        `json:"cut_off"`           // actions that still ran long after the end
	Failure    string     `json:"failure,omitempty"` // why there is no measurement
}

// Latency is in milliseconds.
type Latency struct {
	P50  Figure `json:"p50"`
	P99  Figure `json:"p99"`
	P999 Figure `json:"p999"`
	Max  Figure `json:"max"`
}

func newLatency(h *hdrhistogram.Histogram) Latency {
	ms := func(percentile float64) Figure {
		return per(float64(h.ValueAtPercentile(percentile))/1000, min(1, float64(h.TotalCount())))
	}
	return Latency{P50: ms(50), P99: ms(99), P999: ms(99.9), Max: ms(100)}
}

// Ratio is a result's figures divided by another contender's.
type Ratio struct {
	ActionsPerSec Figure `json:"actions_per_s"` // more is better
	P99           Figure `json:"p99"`           // less is better
}

func newRatio(r, to *Result) *Ratio {
	if to == nil || r.ActionsPerSec == 0 {
		return nil
	}
	return &Ratio{
		per(float64(r.ActionsPerSec), float64(to.ActionsPerSec)),
		per(float64(r.Latency.P99), float64(to.Latency.P99)),
	}
}

// relate adds the ratios to the results of a workload.
func relate(results map[string]*Result) {
	for _, r := range results {
		r.ToArticle = newRatio(r, results[articleName])
		r.ToSadd = newRatio(r, results[saddName])
	}
}

func newResult(t *tally, v Violations) *Result {
	n := float64(t.total())
	return &Result{
		ActionsPerSec: Figure(t.perSecond()),
		Latency:       newLatency(t.latency),
		Commands:      per(t.used.commands, n),
		RedisCPU:      per(t.used.micros, n),
		OwnCPU:        per(t.used.own, n),
		Jain:          Figure(jain(t.actions)),
		Allocs:        per(t.used.mallocs, n),
		Violations:    v,
		Details:       v.texts,
		Errors:        t.errors,
		FirstError:    t.first,
		CutOff:        t.cutOff,
	}
}

// wrong returns what is wrong with the result.
func (r *Result) wrong() (list []string) {
	if r.Failure != "" {
		return []string{r.Failure}
	}
	if v := r.Violations; v.total() > 0 {
		list = append(list, fmt.Sprintf("%d lost, %d phantom, %d duplicate: %s",
			v.Lost, v.Phantom, v.Duplicate, strings.Join(r.Details, "; ")))
	}
	if r.Errors > 0 {
		list = append(list, fmt.Sprintf("%d errors, the first: %s", r.Errors, r.FirstError))
	}
	if r.ActionsPerSec == 0 {
		list = append(list, "not one action")
	}
	return list
}

// remarks returns what the figures do not show.
func (r *Result) remarks() []string {
	list := r.wrong()
	if r.CutOff > 0 {
		list = append(list, fmt.Sprintf("%d actions still ran %v after the end and were cut off", r.CutOff, grace))
	}
	return list
}
