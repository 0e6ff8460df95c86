package bench

import (
	"fmt"
	"math"
	"strings"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
)

// unknown is a figure that was not measured.
var unknown = report.Figure(math.NaN())

// Report is the result of a run. Its JSON form is a contract that scripts rely on.
type Report struct {
	Redis    string  `json:"redis"` // description
	Go       string  `json:"go"`
	Cores    int     `json:"cores"`
	Duration float64 `json:"duration_s"` // of each measurement

	// Ping is the median round trip of a PING before the run. Figures of machines with other round trips do not
	// compare.
	Ping report.Figure `json:"ping_us"`

	// Workloads has the results by workload and contender.
	Workloads map[string]map[string]*Result `json:"workloads"`
}

// Result is the result of one contender in one workload.
type Result struct {
	ActionsPerSec report.Figure `json:"actions_per_s"`
	Latency       tally.Latency `json:"latency_ms"`
	Events        report.Figure `json:"events_per_s,omitempty"`  // frames about actions of other clients
	Commands      report.Figure `json:"commands_per_action"`     // run by Redis, including those in scripts
	Reads         report.Figure `json:"reads_per_action"`        // reads of Redis from sockets, roughly round trips
	RedisCPU      report.Figure `json:"redis_cpu_us_per_action"` // of redis-server, user and system
	OwnCPU        report.Figure `json:"own_cpu_us_per_action"`   // of this process, with nodes and clients
	Jain          report.Figure `json:"jain"`                    // fairness between the clients' numbers of actions
	Allocs        report.Figure `json:"allocs_per_action"`       // of this process

	// To has the ratios to the contenders that others are compared with, by name.
	To map[string]Ratio `json:"to,omitempty"`

	// Memory is the cost of a connection; nil for other kinds of workloads.
	Memory *Memory `json:"memory,omitempty"`

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

func newResult(m *measurement, v Violations) *Result {
	sum := tally.Sum(m.actors...)
	n, seconds := float64(sum.Done.Load()), m.took.Seconds()
	r := &Result{
		ActionsPerSec: report.Figure(n / max(seconds, 1e-9)),
		Latency:       sum.Latency(),
		Events:        report.Figure(m.used.events / max(seconds, 1e-9)),
		Commands:      report.Per(m.used.commands, n),
		Reads:         report.Per(m.used.reads, n),
		RedisCPU:      report.Per(m.used.micros, n),
		OwnCPU:        report.Per(m.used.own, n),
		Allocs:        report.Per(m.used.mallocs, n),
		Violations:    v,
		Details:       v.texts,
		CutOff:        int(sum.Unknown.Load()),
	}
	var each []int64
	for _, t := range m.actors {
		each = append(each, t.Done.Load())
		if each[len(each)-1] == 0 {
			r.Starved++
		}
	}
	r.Jain = report.Figure(tally.Jain(each))
	r.Errors, _ = sum.Errors()
	if err := sum.FirstError(); err != nil {
		r.FirstError = err.Error()
	}
	return r
}

// relate adds the ratios to the results of a workload.
func relate(results map[string]*Result) {
	for _, name := range []string{articleName, saddName, lockmgrName, echoName} {
		to := results[name]
		for _, r := range results {
			if to == nil || r.ActionsPerSec == 0 {
				continue
			}
			if r.To == nil {
				r.To = make(map[string]Ratio)
			}
			r.To[name] = Ratio{
				report.Per(float64(r.ActionsPerSec), float64(to.ActionsPerSec)),
				report.Per(float64(r.Latency.P99), float64(to.Latency.P99)),
			}
		}
	}
}

// Err returns nil if every list was right and no action failed, and otherwise an error with the failures.
func (r *Report) Err() error {
	wrong := r.wrong()
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("wrong lists or failed actions:\n  %s", strings.Join(wrong, "\n  "))
}

// wrong returns a line for each measurement with a failure.
func (r *Report) wrong() (lines []string) {
	for _, w := range workloads {
		for _, c := range contenders {
			if result := r.Workloads[w.name][c.name]; result != nil && len(result.wrong()) > 0 {
				lines = append(lines, fmt.Sprintf("%s, %s: %s", w.name, c.name, strings.Join(result.wrong(), "; ")))
			}
		}
	}
	return lines
}

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
	if r.ActionsPerSec == 0 && r.Memory == nil {
		list = append(list, "not one action")
	}
	return list
}

// remarks returns facts that the figures do not show.
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

// brief returns the most important figures.
func (r *Result) brief() string {
	if m := r.Memory; m != nil {
		return fmt.Sprintf("%s KiB a connection, %s freed", m.Resident.Text("%.1f"), m.Freed.Text("%.1f"))
	}
	return fmt.Sprintf("%s actions/s, p99 %s ms", r.ActionsPerSec.Text("%.0f"), r.Latency.P99.Text("%.2f"))
}

func (r *Report) setup() string {
	return fmt.Sprintf("%s, %s µs for a PING; %s; %d cores; %.3g s a measurement",
		r.Redis, r.Ping.Text("%.0f"), r.Go, r.Cores, r.Duration)
}
