package loadtest

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/loadtest/check"
	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
)

// Report is the result of a run. Its JSON form is a contract that scripts rely on.
type Report struct {
	Nodes    int `json:"nodes"`
	Clients  int `json:"clients"`
	Rooms    int `json:"rooms"`
	Capacity int `json:"capacity"`

	Actions int64 `json:"actions"` // acknowledged, without reads
	Joins   int64 `json:"joins"`
	Leaves  int64 `json:"leaves"`
	Reads   int64 `json:"reads"`
	Refused int64 `json:"refused"` // full rooms, taken seats, conflicts and so on
	Unknown int64 `json:"unknown"` // possibly executed
	Errors  int   `json:"errors"`  // caused by no player
	Events  int64 `json:"events"`  // frames about other players' actions

	ByAction []Outcomes `json:"by_action"` // only kinds that were tried

	Duration      float64       `json:"duration_s"`
	ActionsPerSec float64       `json:"actions_per_s"`
	Latency       tally.Latency `json:"latency_ms"` // of players' acknowledged actions

	// processor time of this process: players, and nodes that it started; not with faults
	OwnCPU   report.Figure `json:"own_cpu_s"`
	OwnShare report.Figure `json:"own_cpu_share"` // of the machine's processors

	Witnessed  int `json:"witnessed"`        // operations judged by the journals
	Linearized int `json:"linearized"`       // operations judged without them
	Watched    int `json:"watched_journals"` // rooms in which events to watchers replaced the journal

	Violations check.Counts `json:"violations"`
	Verdict    string       `json:"verdict"` // consistent, inconsistent or undecided

	Details    []string `json:"details,omitempty"`         // descriptions of the first violations
	Undecided  []string `json:"undecided,omitempty"`       // what could not be decided
	Strange    []string `json:"unknown_changes,omitempty"` // kinds of changes that the checkers do not know
	ErrorTexts []string `json:"error_texts,omitempty"`     // the first errors, with their numbers

	// With faults: the number of acknowledged actions that each made Redis lose, and additions to the report.
	LostBy map[int]int `json:"-"` // by the index of the fault
	More   Addition    `json:"-"`

	ownNodes      bool                   // the nodes are in this process, too
	curve         []hdrhistogram.Bracket // latency in µs by percentile, for the chart
	rate, slowest report.Series          // of actions over time
}

// Addition is what faults add to the report of a game.
type Addition struct {
	Command, Question, Setup string
	Spans                    []report.Span    // in the background of charts
	Facts                    []report.Fact    // facts about the proof
	Tables                   []*report.Table  // for a terminal
	Sections                 []report.Section // of the page
	Repeat                   []string         // command that repeats the run
}

// Outcomes are the outcomes of the actions of one kind.
type Outcomes struct {
	Action    string `json:"action"`
	Done      int64  `json:"done"`
	Refused   int64  `json:"refused"`
	Conflicts int64  `json:"conflicts"` // refused compare-and-sets
	Unknown   int64  `json:"unknown"`
}

// Consistent reports whether nothing was wrong or undecided.
func (r *Report) Consistent() bool { return r.Verdict == Consistent }

// Judge returns the report of a game that lasted for played. found has violations that others have found.
func (g *Game) Judge(h *check.History, played time.Duration, found ...check.Violation) *Report {
	r := &Report{Nodes: len(g.cfg.Nodes), Clients: g.cfg.Clients, Rooms: g.cfg.Rooms, Capacity: g.cfg.Capacity,
		Duration: played.Seconds()}
	r.Actions, r.Refused, r.Unknown = g.History.Counts()
	r.count(h, &g.errors)
	defer debug.SetGCPercent(debug.SetGCPercent(30)) // most of the memory is the history, which does not grow any more
	witness, porcupine := check.Witness(h), check.Linearize(h, check.DefaultPatience)
	all := slices.Concat(g.Problems(), found, witness.Violations, porcupine.Violations)
	r.Violations = check.Count(all)
	for _, v := range all {
		r.Details = append(r.Details, v.String())
	}
	r.Undecided = append(witness.Unsure, porcupine.Unsure...)
	r.Witnessed, r.Linearized, r.Watched = witness.Judged, porcupine.Judged, witness.Watched
	r.Strange, r.LostBy = witness.Strange, witness.Lost
	switch {
	case len(all) > 0:
		r.Verdict = Inconsistent
	case len(r.Undecided) > 0:
		r.Verdict = Undecided
	default:
		r.Verdict = Consistent
	}
	return r
}

// bucket is the interval of a point in a chart.
const bucket = 500 * time.Millisecond

// count fills in the numbers of actions.
func (r *Report) count(h *check.History, failed *tally.Tally) {
	t, by := new(tally.Tally), make(map[string]*Outcomes)
	for _, p := range plays {
		by[p.name] = &Outcomes{Action: p.name}
	}
	for _, op := range h.Ops {
		if op.Part || op.Process == storeProcess {
			continue
		}
		o := by[countedAs(op)]
		switch {
		case op.Outcome == check.Done:
			o.Done++
			if op.Acts() {
				at, took := int(op.Return/bucket), op.Return-op.Call
				t.Record(took)
				for n := len(r.rate.Points); n <= at; n++ {
					first := report.Point{X: (time.Duration(n) * bucket).Seconds()}
					r.rate.Points, r.slowest.Points = append(r.rate.Points, first), append(r.slowest.Points, first)
				}
				r.rate.Points[at].Y += 1 / bucket.Seconds()
				r.slowest.Points[at].Y = max(r.slowest.Points[at].Y, took.Seconds()*1000)
			}
		case op.Outcome == check.Unknown:
			o.Unknown++
		case op.Code == "conflict":
			o.Conflicts++
		default:
			o.Refused++
		}
	}
	for _, p := range plays {
		if o := *by[p.name]; o != (Outcomes{Action: p.name}) {
			r.ByAction = append(r.ByAction, o)
		}
	}
	r.Joins, r.Leaves, r.Reads = by[check.Join].Done, by[check.Leave].Done, by[check.Read].Done
	r.ActionsPerSec, r.Latency, r.curve = float64(r.Actions)/r.Duration, t.Latency(), t.Curve()
	for i := range h.Events {
		if e := &h.Events[i]; !e.Reply && !h.Conns[e.Conn].Watches {
			r.Events++
		}
	}
	errs, texts := failed.Errors()
	r.Errors = int(errs)
	for text, n := range texts {
		r.ErrorTexts = append(r.ErrorTexts, fmt.Sprintf("%d × %s", n, text))
	}
	slices.Sort(r.ErrorTexts)
}

// nameWidth is the width of the first column in a terminal.
const nameWidth = 10

// WriteTable writes the report as text.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.played().Text(nameWidth))
	for _, t := range append([]*report.Table{r.mixed()}, r.More.Tables...) {
		if len(t.Rows) > 0 {
			b.WriteString(t.Text())
		}
	}
	ends := slices.Concat(r.processor(), []report.Fact{{Name: "latency", Text: together(latencyFacts(r.Latency))}},
		r.judged(),
		[]report.Fact{{Name: "violations", Text: together(violations(r.Violations))},
			{Name: "verdict", Text: r.Verdict}})
	b.WriteString((&report.Facts{Rows: ends}).Text(nameWidth))
	for _, list := range []struct {
		title string
		lines []string
	}{{"errors", r.ErrorTexts}, {"violations", r.Details}, {"undecided", r.Undecided}, {"repeat it with", r.More.Repeat}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n  %s\n", list.title, strings.Join(list.lines, "\n  "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// together returns facts in one line.
func together(facts []report.Fact) string {
	texts := make([]string, len(facts))
	for i, f := range facts {
		texts[i] = f.Name + " " + f.Text
	}
	return strings.Join(texts, ", ")
}

// judged returns facts about the checkers.
func (r *Report) judged() []report.Fact {
	text := fmt.Sprintf("%d operations by the journals, %d without them", r.Witnessed, r.Linearized)
	if r.Watched > 0 {
		text += fmt.Sprintf("; %d rooms have no whole journal, and what watchers were told stands for it: private data, whispers and bans were not judged there", r.Watched)
	}
	if len(r.Strange) > 0 {
		text += "; changes that no checker knows, and which change nothing for all that they know: " +
			strings.Join(r.Strange, ", ")
	}
	return append([]report.Fact{{Name: "judged", Text: text,
		About: "By each room's journal, and by an order in which all can have happened."}}, r.More.Facts...)
}

// busy is the share of the machine's processors above which the players measure themselves.
const busy = 0.5

// processor returns the usage of this process, and whether it limited the rate.
func (r *Report) processor() []report.Fact {
	if r.OwnCPU == 0 {
		return nil
	}
	who, note := "the players' process", ""
	switch {
	case r.ownNodes:
		who = "players and nodes, which are one process (--target tells them apart)"
	case r.OwnShare >= busy:
		note = ": they are the bottleneck, and not the nodes; let them play on another machine"
	}
	text := fmt.Sprintf("%s s, %s %% of the machine's, by %s%s", r.OwnCPU.Text("%.1f"),
		(100 * r.OwnShare).Text("%.0f"), who, note)
	return []report.Fact{{Name: "processor", Text: text, About: "Processor time of the process that has the players."}}
}

// played describes the run, with its numbers.
func (r *Report) played() *report.Facts {
	capacity := ""
	if r.Capacity > 0 {
		capacity = fmt.Sprintf(" of %d seats", r.Capacity)
	}
	setup := fmt.Sprintf("%d clients, %d rooms%s, %d nodes, %.1f s%s", r.Clients, r.Rooms, capacity, r.Nodes,
		r.Duration, r.More.Setup)
	return &report.Facts{Title: "What was played", Rows: []report.Fact{
		{Name: "setup", Text: setup},
		{Name: "actions", Text: fmt.Sprintf("%d  (%.0f/s; %d joins, %d leaves)", r.Actions, r.ActionsPerSec, r.Joins,
			r.Leaves),
			About: "Acknowledged actions without reads, and their rate."},
		{Name: "besides", Text: fmt.Sprintf("%d reads, %d refused, %d unknown, %d errors, %d events received",
			r.Reads, r.Refused, r.Unknown, r.Errors, r.Events),
			About: "Refused requests met full or closed rooms, bans and conflicts, and are no errors. Unknown ones may or may not have happened. Errors failed for no fault of a player. Events are frames about other players' actions."},
	}}
}

// mixed returns a table of the actions other than joins and leaves.
func (r *Report) mixed() *report.Table {
	t := &report.Table{
		Title: "Mix", Subtitle: "how the actions besides joins and leaves ended", Columns: []report.Column{
			{Head: ""}, {Head: "done", About: "acknowledged"},
			{Head: "refused", About: "for a reason that the rules of the room give"},
			{Head: "conflicts", About: "compare-and-sets that came too late"},
			{Head: "unknown", About: "the server said so, or the connection broke"},
		},
		About: "Half of the players' data expect a version, so that several race for one. host is what only the host may ask for, and who is not the host is refused. What comes behind match is the administrator's.",
	}
	for _, o := range r.ByAction {
		if !slices.ContainsFunc(plays, func(p played) bool { return p.name == o.Action && p.mix == "" }) {
			t.Rows = append(t.Rows, report.Row{Cells: []string{o.Action, fmt.Sprint(o.Done), fmt.Sprint(o.Refused),
				fmt.Sprint(o.Conflicts), fmt.Sprint(o.Unknown)}})
		}
	}
	return t
}

func latencyFacts(l tally.Latency) []report.Fact {
	ms := func(x report.Figure) string { return x.Text("%.2f ms") }
	return []report.Fact{
		{Name: "p50", Text: ms(l.P50), About: "half of the actions took at most so long"},
		{Name: "p90", Text: ms(l.P90), About: "9 of 10"},
		{Name: "p99", Text: ms(l.P99), About: "99 of 100"},
		{Name: "p99.9", Text: ms(l.P999), About: "999 of 1,000"},
		{Name: "max", Text: ms(l.Max), About: "all of them"},
	}
}

func violations(v check.Counts) (list []report.Fact) {
	for _, k := range check.Kinds {
		class := "good"
		if v[k.Name] > 0 {
			class = "bad"
		}
		list = append(list, report.Fact{Name: strings.ReplaceAll(k.Name, "_", " "), Text: fmt.Sprint(v[k.Name]),
			About: k.About, Class: class})
	}
	return list
}

// WriteHTML writes the report as one self-contained page: the verdict and its reasons, the numbers of the run, charts
// of actions and latency, the errors, and how to repeat it.
func (r *Report) WriteHTML(w io.Writer) error {
	played := r.played()
	lists := &report.Facts{Rows: violations(r.Violations),
		About: "All replies and events were compared with the rooms' journals, Redis, and every node's answer; and they have an order in which all can have happened."}
	times := &report.Facts{Title: "Percentiles", Rows: latencyFacts(r.Latency),
		About: "Of acknowledged actions, from the request to its reply."}
	page := report.Page{
		Command: cmp.Or(r.More.Command, "run"), Question: cmp.Or(r.More.Question, "Are the lists right under load?"),
		Verdict: r.Verdict, Good: r.Consistent(), Setup: played.Rows[0].Text,
		Sections: []report.Section{{ID: "violations", Title: "Violations",
			About: "What would be wrong, and how often it was seen.",
			Parts: []template.HTML{lists.HTML(), report.List(r.Details), report.List(r.Undecided),
				(&report.Facts{Title: "What was proved", Rows: r.judged()}).HTML()}}},
	}
	page.Sections = append(append(page.Sections, r.More.Sections...),
		report.Section{ID: "actions", Title: "Actions", Parts: []template.HTML{
			(&report.Facts{Title: played.Title, Rows: append(played.Rows[1:], r.processor()...)}).HTML(),
			r.mixed().HTML(),
			r.OverTime("Actions per second", "", "Acknowledged actions of all clients together. The first moments are slower, as clients connect and join.", "actions/s", r.rate),
			r.OverTime("The slowest action", "of each half second, ", "", "ms", r.slowest)}},
		report.Section{ID: "errors", Title: "Errors",
			About: "Requests and connections that failed for no fault of a player.",
			Parts: []template.HTML{report.List(r.ErrorTexts)}},
		report.Section{ID: "latency", Title: "Latency",
			Parts: []template.HTML{report.Latency("Latency", "actions", r.curve), times.HTML()}},
		report.Section{ID: "repeat", Title: "Repeat it",
			About: "The seed makes the same faults, in the same order, for as long.",
			Parts: []template.HTML{report.List(r.More.Repeat)}})
	return page.Write(w)
}

// OverTime draws lines over the time of the run, with the faults in the background.
func (r *Report) OverTime(title, subtitle, about, unit string, lines ...report.Series) template.HTML {
	subtitle += "over the time of the run"
	if len(r.More.Spans) > 0 {
		subtitle += "; faults are grey"
	}
	return report.Chart{
		Title: title, Subtitle: subtitle, About: about,
		X: report.Axis{Label: "seconds"}, Y: report.Axis{Label: unit}, Series: lines, Spans: r.More.Spans,
	}.HTML()
}
