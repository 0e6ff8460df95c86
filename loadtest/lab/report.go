package lab

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"roomd/loadtest/lab/anomaly"
)

// Report is the result of a run. Its JSON form is a contract that scripts rely on. Times are the run's own: multiply
// them by 1000/second_ms for published ones, except under heavy load, which is not scaled.
type Report struct {
	Redis       string        `json:"redis"`
	SecondMS    float64       `json:"second_ms"` // duration of a published second
	Duration    float64       `json:"duration_s"`
	Disciplines []*Row        `json:"disciplines"`
	Cache       []CacheResult `json:"cache,omitempty"`

	Verdict     string   `json:"verdict"` // as listed, or different
	Differences []string `json:"differences,omitempty"`

	differ []*Cell // cells of Differences
}

// Row is one discipline.
type Row struct {
	Name    string   `json:"name"`
	Article string   `json:"article"` // its source, one of five
	About   string   `json:"about"`
	Cells   []*Cell  `json:"cells"`
	Listed  []Listed `json:"listed"`

	Failures   []*Cell `json:"-"` // for the page
	discipline *discipline
}

// Listed is an anomaly that a discipline has to show under a fault, because its article warns of it, or it is
// otherwise known.
type Listed struct {
	Text    string `json:"text"`
	Fault   string `json:"fault"`
	Anomaly string `json:"anomaly"`           // a kind of package anomaly, or waited
	Forever bool   `json:"forever,omitempty"` // the anomaly also stays for ever
	Seen    bool   `json:"seen"`
}

// waited is listed where other callers wait for nearly the whole TTL, which is no anomaly.
const waited = "waited"

// Cell is a discipline under a fault.
type Cell struct {
	Discipline string         `json:"discipline"`
	Fault      string         `json:"fault"`
	Applies    bool           `json:"applies"` // the discipline has the fault's steps
	Done       bool           `json:"done"`
	Anomalies  anomaly.Counts `json:"anomalies"`
	// ByChance has the anomalies that a quiet machine does not show. For roomd they count all the same.
	ByChance []string `json:"by_chance,omitempty"`

	// For the page: whether the cell has an anomaly or is not as listed, and the ID of the next such cell.
	Fails bool   `json:"-"`
	Next  string `json:"-"`

	fault    *fault
	second   time.Duration
	history  anomaly.History
	findings []anomaly.Finding
}

func newReport(cfg Config, redis string) *Report {
	r := &Report{Redis: redis, Duration: cfg.Duration.Seconds(), SecondMS: ms(cfg.Second)}
	for _, d := range disciplines {
		if !isChosen(cfg.Only, d.name) {
			continue
		}
		row := &Row{Name: d.name, Article: d.article, About: d.describe(), Listed: []Listed{}, discipline: d}
		for _, f := range faults {
			if isChosen(cfg.Faults, f.name) {
				row.Cells = append(row.Cells, &Cell{Discipline: d.name, Fault: f.name, Applies: d.has(f.needs...),
					fault: f})
			}
		}
		for _, l := range d.listed {
			if isChosen(cfg.Faults, l.Fault) {
				row.Listed = append(row.Listed, l)
			}
		}
		r.Disciplines = append(r.Disciplines, row)
	}
	return r
}

// fill sets the result of a finished cell.
func (c *Cell) fill(second time.Duration, h anomaly.History) {
	c.second, c.history = second, h
	c.findings, c.Anomalies = anomaly.Find(h)
	c.ByChance = c.byChance()
}

// shows reports whether the cell has a listed anomaly.
func (c *Cell) shows(l Listed) bool {
	if l.Anomaly == waited {
		return c.Anomalies.StuckMS >= 0.9*ms(c.history.TTL)
	}
	return *c.Anomalies.Of(l.Anomaly) > 0 && (c.Anomalies.Forever || !l.Forever)
}

// judge compares the result with the lists: roomd must show no anomaly, and every other discipline at least its
// listed ones.
func (r *Report) judge() {
	differs := func(c *Cell, format string, args ...any) {
		r.Differences, r.differ = append(r.Differences, fmt.Sprintf(format, args...)), append(r.differ, c)
	}
	for _, row := range r.Disciplines {
		for _, c := range row.Cells {
			for i := range row.Listed {
				if l := &row.Listed[i]; l.Fault == c.Fault {
					if l.Seen = c.shows(*l); !l.Seen {
						differs(c, "%s did not show under %s: %s", row.Name, l.Fault, l.Text)
					}
				}
			}
			for _, f := range c.findings {
				if row.discipline == &roomd {
					differs(c, "roomd under %s: %s", c.Fault, f)
				}
			}
		}
	}
	r.Verdict = "as listed"
	if !r.AsListed() {
		r.Verdict = "different"
	}
}

// AsListed reports whether roomd showed no anomaly, and every other discipline all its listed ones.
func (r *Report) AsListed() bool { return len(r.Differences) == 0 }

// Marks of a cell without anomalies.
const (
	markGood = "·"
	markNone = "–"
	markOpen = " "
)

// quietText is the matrix on a machine that does nothing else, as WriteMatrix writes it.
//
//go:embed quiet.txt
var quietText string

// quiet returns the marks of a cell on a quiet machine.
func quiet(discipline, name string) string {
	at := slices.IndexFunc(faults, func(f *fault) bool { return f.name == name })
	for line := range strings.Lines(quietText) {
		if words := strings.Fields(line); len(words) == 1+len(faults) && words[0] == discipline && at >= 0 {
			return words[1+at]
		}
	}
	return ""
}

// byChance returns the anomalies of the cell that a quiet machine does not show.
func (c *Cell) byChance() (list []string) {
	marks := quiet(c.Discipline, c.Fault)
	for _, l := range anomaly.Anomalies {
		if *c.Anomalies.Of(l.Name) > 0 && c.Discipline != roomd.name && !strings.Contains(marks, l.Letter) {
			list = append(list, l.Name)
		}
	}
	return list
}

// Marks returns the letters of the anomalies found in a cell.
func (c *Cell) Marks() string {
	switch {
	case !c.Applies:
		return markNone
	case !c.Done:
		return markOpen
	}
	marks, chance := "", ""
	for _, l := range anomaly.Anomalies {
		if slices.Contains(c.ByChance, l.Name) {
			chance += l.Letter
		} else if *c.Anomalies.Of(l.Name) > 0 {
			marks += l.Letter
		}
	}
	if c.Anomalies.Forever {
		marks += "∞"
	}
	if chance != "" {
		marks += "(" + chance + ")"
	}
	return cmp.Or(marks, markGood)
}
