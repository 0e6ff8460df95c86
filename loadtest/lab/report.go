package lab

import (
	"fmt"
	"slices"
	"time"

	"roomd/loadtest/lab/anomaly"
)

// The verdicts.
const (
	verdictAsListed  = "as listed"
	verdictDifferent = "different"
)

// Report is the outcome of a run. Its JSON form is a contract that scripts rely on. Times are those of the run: multiply
// them by 1000/second_ms for published ones, except under heavy load, which is not scaled.
type Report struct {
	Redis       string        `json:"redis"`
	SecondMS    float64       `json:"second_ms"` // how long a published second lasted
	Duration    float64       `json:"duration_s"`
	Disciplines []*Row        `json:"disciplines"`
	Cache       []CacheResult `json:"cache,omitempty"`

	Verdict     string   `json:"verdict"` // as listed, or different
	Differences []string `json:"differences,omitempty"`

	differ []*Cell // of Differences
}

// Row is one discipline.
type Row struct {
	Name    string   `json:"name"`
	Article string   `json:"article"` // which of the five it is from
	About   string   `json:"about"`
	Cells   []*Cell  `json:"cells"`
	Listed  []Listed `json:"listed"`

	discipline *discipline
}

// Listed is an anomaly that a discipline has to show under a fault: its article warns of it, or it is known otherwise.
type Listed struct {
	Text    string `json:"text"`
	Fault   string `json:"fault"`
	Anomaly string `json:"anomaly"`           // of package anomaly, or waited
	Forever bool   `json:"forever,omitempty"` // the anomaly also stays for ever
	Seen    bool   `json:"seen"`
}

// Cell is a discipline under a fault.
type Cell struct {
	Discipline string         `json:"discipline"`
	Fault      string         `json:"fault"`
	Applies    bool           `json:"applies"` // the discipline has the step where the fault strikes
	Done       bool           `json:"done"`
	Anomalies  anomaly.Counts `json:"anomalies"`
	// ByChance are the anomalies that a quiet machine does not show. Nobody excuses those of roomd.
	ByChance []string `json:"by_chance,omitempty"`

	fault    *fault
	second   time.Duration
	history  anomaly.History
	findings anomaly.Findings
}

func newReport(cfg Config, redis string) *Report {
	r := &Report{Redis: redis, Duration: cfg.Duration.Seconds(), SecondMS: float64(cfg.Second.Microseconds()) / 1000}
	for _, d := range disciplines {
		if !slices.Contains(cfg.Only, d.name) {
			continue
		}
		row := &Row{Name: d.name, Article: d.article, About: d.describe(), Listed: []Listed{}, discipline: d}
		for _, f := range faults {
			if slices.Contains(cfg.Faults, f.name) {
				row.Cells = append(row.Cells, &Cell{Discipline: d.name, Fault: f.name, Applies: d.has(f.needs...), fault: f})
			}
		}
		for _, l := range d.listed {
			if slices.Contains(cfg.Faults, l.Fault) {
				row.Listed = append(row.Listed, l)
			}
		}
		r.Disciplines = append(r.Disciplines, row)
	}
	return r
}

// fill sets the outcome of a cell.
func (c *Cell) fill(second time.Duration, h anomaly.History) {
	c.Done, c.history, c.findings, c.second = true, h, anomaly.Find(h), second
	c.Anomalies = c.findings.Counts()
	c.ByChance = c.byChance()
}

// cell returns the row's cell under a fault, or an empty one.
func (r *Row) cell(fault string) *Cell {
	if i := slices.IndexFunc(r.Cells, func(c *Cell) bool { return c.Fault == fault }); i >= 0 {
		return r.Cells[i]
	}
	return &Cell{}
}

// judge compares what was seen with what is listed: roomd must show no anomaly, and every other discipline at least those
// that are listed for it.
func (r *Report) judge() {
	r.Differences, r.differ = nil, nil
	differs := func(c *Cell, format string, args ...any) {
		r.Differences, r.differ = append(r.Differences, fmt.Sprintf(format, args...)), append(r.differ, c)
	}
	for _, row := range r.Disciplines {
		for i := range row.Listed {
			l := &row.Listed[i]
			c := row.cell(l.Fault)
			if l.Seen = l.seenIn(c.Anomalies, timescale{c.second}.seconds(row.discipline.ttl)); !l.Seen {
				differs(c, "%s did not show under %s: %s", row.Name, l.Fault, l.Text)
			}
		}
		for _, c := range row.Cells {
			if row.discipline == &roomd {
				for _, f := range c.findings.All {
					differs(c, "roomd under %s: %s", c.Fault, f)
				}
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
