package lab

import (
	"fmt"
	"slices"
	"time"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/lab/anomaly"
)

// The verdicts.
const (
	verdictAsListed  = "as listed"
	verdictDifferent = "different"
)

// Report is the outcome of a run. Its JSON form is a contract that scripts rely on.
// Times are those of the run. Multiply them by 1000/second_ms for published ones, except
// under heavy load, which is not scaled.
type Report struct {
	Redis       string        `json:"redis"`
	Seed        uint64        `json:"seed"`
	SecondMS    float64       `json:"second_ms"` // how long a published second lasted
	Duration    float64       `json:"duration_s"`
	Disciplines []*Row        `json:"disciplines"`
	Cache       []CacheResult `json:"cache,omitempty"`
	Draws       []Draw        `json:"draws"` // of values that should differ

	Verdict     string   `json:"verdict"` // as listed, or different
	Differences []string `json:"differences,omitempty"`
}

// Row is one discipline.
type Row struct {
	Name string `json:"name"`
	// Article is which of the five it is from.
	Article string   `json:"article"`
	About   string   `json:"about"`
	Cells   []*Cell  `json:"cells"`
	Listed  []Listed `json:"listed"`

	discipline *discipline
}

// Listed is a known anomaly of a discipline.
type Listed struct {
	Text    string `json:"text"`
	Fault   string `json:"fault"`
	Anomaly string `json:"anomaly"`
	Forever bool   `json:"forever,omitempty"`
	Seen    bool   `json:"seen"`

	listed listed
}

// Cell is a discipline under a fault.
type Cell struct {
	Discipline string         `json:"discipline"`
	Fault      string         `json:"fault"`
	Applies    bool           `json:"applies"` // the discipline has the step where the fault strikes
	Done       bool           `json:"done"`
	Anomalies  anomaly.Counts `json:"anomalies"`
	// ByChance are the anomalies that a quiet machine does not show. Nobody excuses
	// those of roomd.
	ByChance []string `json:"by_chance,omitempty"`

	Actions       int64         `json:"actions"` // acknowledged joins and leaves
	ActionsPerSec float64       `json:"actions_per_s"`
	Latency       tally.Latency `json:"latency_ms"` // of all requests, also refused ones

	fault    *fault
	row      *Row
	second   time.Duration
	history  anomaly.History
	findings anomaly.Findings
}

func newReport(cfg Config, seed uint64, redis string) *Report {
	r := &Report{
		Redis: redis, Seed: seed, Duration: cfg.Duration.Seconds(),
		SecondMS: float64(cfg.Second.Microseconds()) / 1000,
	}
	for _, d := range disciplines {
		if !slices.Contains(cfg.Only, d.name) {
			continue
		}
		row := &Row{Name: d.name, Article: d.article, About: d.about, Listed: []Listed{}, discipline: d}
		for _, f := range faults {
			if slices.Contains(cfg.Faults, f.name) {
				row.Cells = append(row.Cells, &Cell{Discipline: d.name, Fault: f.name, Applies: d.has(f.needs...), fault: f, row: row})
			}
		}
		for _, a := range d.listed {
			if slices.Contains(cfg.Faults, a.fault) {
				row.Listed = append(row.Listed, Listed{Text: a.text, Fault: a.fault, Anomaly: a.anomaly, Forever: a.forever, listed: a})
			}
		}
		r.Disciplines = append(r.Disciplines, row)
	}
	return r
}

// fill sets the outcome of a cell.
func (c *Cell) fill(x *cell, h anomaly.History, f anomaly.Findings) {
	c.Done, c.history, c.findings, c.second = true, h, f, x.second
	c.Anomalies = f.Counts()
	c.ByChance = c.byChance()
	c.Actions = x.tally.Of(action).Done
	c.ActionsPerSec = float64(c.Actions) / x.elapsed.Seconds()
	c.Latency = x.tally.Latency()
}

// ttl returns that of the lock, in the time of the cell.
func (c *Cell) ttl() time.Duration {
	if c.row == nil {
		return 0
	}
	return time.Duration(c.row.discipline.ttl * float64(c.second))
}

// cell returns the row's cell under a fault, or an empty one.
func (r *Row) cell(fault string) *Cell {
	for _, c := range r.Cells {
		if c.Fault == fault {
			return c
		}
	}
	return &Cell{}
}

// judge compares what was seen with what is listed: roomd must show no anomaly, and
// every other discipline at least those that are listed for it.
func (r *Report) judge() {
	r.Differences = nil
	for _, row := range r.Disciplines {
		for i := range row.Listed {
			l := &row.Listed[i]
			l.Seen = l.listed.seenIn(row.cell(l.Fault).Anomalies, row.cell(l.Fault).ttl())
			if !l.Seen {
				r.Differences = append(r.Differences, fmt.Sprintf("%s did not show under %s: %s", row.Name, l.Fault, l.Text))
			}
		}
		if row.discipline != &roomd {
			continue
		}
		for _, c := range row.Cells {
			for _, f := range c.findings.All {
				r.Differences = append(r.Differences, fmt.Sprintf("roomd under %s: %s", c.Fault, f))
			}
		}
	}
	r.Verdict = verdictAsListed
	if len(r.Differences) > 0 {
		r.Verdict = verdictDifferent
	}
}

// AsListed reports whether the verdict is "as listed".
func (r *Report) AsListed() bool { return r.Verdict == verdictAsListed }
