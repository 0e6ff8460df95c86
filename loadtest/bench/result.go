package bench

import (
	"fmt"
	"strings"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
)

// Result is the outcome of one contender in one workload.
type Result struct {
	ActionsPerSec report.Figure `json:"actions_per_s"`
	Latency       tally.Latency `json:"latency_ms"`
	Commands      report.Figure `json:"commands_per_action"`     // of Redis, including those in scripts
	Reads         report.Figure `json:"reads_per_action"`        // of Redis from sockets, about the round trips
	RedisCPU      report.Figure `json:"redis_cpu_us_per_action"` // of redis-server, user and system
	OwnCPU        report.Figure `json:"own_cpu_us_per_action"`   // of this process: nodes and clients
	Jain          report.Figure `json:"jain"`                    // of the clients' numbers of actions
	Allocs        report.Figure `json:"allocs_per_action"`       // of this process

	ToArticle *Ratio `json:"to_article,omitempty"`
	ToSadd    *Ratio `json:"to_sadd,omitempty"`
	ToLockmgr *Ratio `json:"to_lockmgr,omitempty"`

	Violations Violations `json:"violations"`
	Details    []string   `json:"details,omitempty"` // the first violations
	Errors     int64      `json:"errors"`            // actions that failed
	FirstError string     `json:"first_error,omitempty"`
	CutOff     int        `json:"cut_off"`           // actions that still ran long after the end
	Starved    int        `json:"starved"`           // clients without one action
	Failure    string     `json:"failure,omitempty"` // why there is no measurement
}

// Ratio is a result's figures divided by another contender's.
type Ratio struct {
	ActionsPerSec report.Figure `json:"actions_per_s"` // more is better
	P99           report.Figure `json:"p99"`           // less is better
}

func newRatio(r, to *Result) *Ratio {
	if to == nil || r.ActionsPerSec == 0 {
		return nil
	}
	return &Ratio{
		report.Per(float64(r.ActionsPerSec), float64(to.ActionsPerSec)),
		report.Per(float64(r.Latency.P99), float64(to.Latency.P99)),
	}
}

// relate adds the ratios to the results of a workload.
func relate(results map[string]*Result) {
	for _, r := range results {
		r.ToArticle = newRatio(r, results[articleName])
		r.ToSadd = newRatio(r, results[saddName])
		r.ToLockmgr = newRatio(r, results[lockmgrName])
	}
}

// to returns the ratio to a contender.
func (r *Result) to(name string) *Ratio {
	return map[string]*Ratio{articleName: r.ToArticle, saddName: r.ToSadd, lockmgrName: r.ToLockmgr}[name]
}

func newResult(m *measurement, v Violations) *Result {
	sum, each := tally.Sum(m.actors...), m.actions()
	n := float64(sum.Of(actions).Done)
	errs, _ := sum.Errors()
	first := ""
	if err := sum.FirstError(); err != nil {
		first = err.Error()
	}
	starved := 0
	for _, n := range each {
		if n == 0 {
			starved++
		}
	}
	return &Result{
		ActionsPerSec: m.perSecond(),
		Latency:       sum.Latency(),
		Commands:      report.Per(m.used.commands, n),
		Reads:         report.Per(m.used.reads, n),
		RedisCPU:      report.Per(m.used.micros, n),
		OwnCPU:        report.Per(m.used.own, n),
		Jain:          report.Figure(tally.Jain(each)),
		Allocs:        report.Per(m.used.mallocs, n),
		Violations:    v,
		Details:       v.texts,
		Errors:        errs,
		FirstError:    first,
		CutOff:        int(sum.Of(actions).Unknown),
		Starved:       starved,
	}
}

// wrong returns what is wrong with the result.
func (r *Result) wrong() (list []string) {
	if r.Failure != "" {
		return []string{r.Failure}
	}
	if r.Violations.Shared > 0 {
		list = append(list, fmt.Sprintf("mutual exclusion was violated: %d holds were not alone", r.Violations.Shared))
	}
	if v := r.Violations; v.total() > v.Shared {
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
	if r.Starved > 0 && r.ActionsPerSec > 0 {
		list = append(list, fmt.Sprintf("%d clients had not one action", r.Starved))
	}
	return list
}
