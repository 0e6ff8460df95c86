package bench

import (
	"html/template"
	"io"

	"roomd/loadtest/report"
)

// contenderMeanings explain the contenders on the page.
var contenderMeanings = []report.Fact{
	{Name: articleName, Text: "the published lock: SET NX EX 3 with a spin of 5 ms, GET, change, SET a JSON list, release by script"},
	{Name: saddName, Text: "one SADD or SREM, no lock: nobody learns of a change, no list has a version, nothing keeps a stale writer out"},
	{Name: "lua", Text: "one script that checks the capacity and writes, no lock"},
	{Name: "lua+ap", Text: "the same through go-redis' AutoPipeline"},
	{Name: "roomd-1", Text: "roomd with one action in a hold"},
	{Name: roomdName, Text: "roomd with its defaults"},
}

// WriteHTML writes the report as one self-contained page: actions per second and
// the 99th percentile of latency by workload and contender, and the tables.
func (r *Report) WriteHTML(w io.Writer) error {
	page := report.Page{
		Command: "bench", Question: "How fast is roomd beside other ways to do the same?",
		Verdict: "all lists right", Good: true, Setup: r.setup(),
	}
	if wrong := r.wrong(); len(wrong) > 0 {
		page.Verdict, page.Good, page.Problems = "wrong lists or failed actions", false, wrong
	}
	charts, err := r.charts()
	if err != nil {
		return err
	}
	if len(charts) > 0 {
		charts = append(charts, report.Meanings("What the contenders do", contenderMeanings))
	}
	var tables []template.HTML
	for _, w := range workloads {
		if results := r.Workloads[w.name]; results != nil {
			tables = append(tables, tableOf(w, results).html())
		}
	}
	if len(tables) > 0 {
		tables = append([]template.HTML{(&report.Table{Columns: resultColumns}).Meanings()}, tables...)
	}
	page.Sections = []report.Section{
		{ID: "compared", Title: "Contenders compared", Parts: charts,
			About: "Clients join and leave their rooms over and over. Compare figures only within one run: they move by a quarter from run to run."},
		{ID: "figures", Title: "All figures", Parts: tables, About: "One table for each workload; the row of roomd is marked."},
	}
	for _, part := range r.parts() {
		f := part.figures()
		parts := []template.HTML{f.html()}
		if part == r.Neighbours {
			svg, err := r.Neighbours.draw()
			if err != nil {
				return err
			}
			parts = append([]template.HTML{svg}, parts...)
		}
		page.Sections = append(page.Sections, report.Section{ID: f.name, Title: titles[f.name], Parts: parts})
	}
	return page.Write(w)
}

// titles are the headings of the workloads that compare no contenders.
var titles = map[string]string{
	webSocketName: "The whole path: WebSockets", memoryName: "What a connection costs",
	stormName: "All connect at once", neighboursName: "What players notice of attackers",
}

// charts returns the charts that compare the contenders.
func (r *Report) charts() (list []template.HTML, err error) {
	for _, c := range []chart{
		{"Actions per second", "by workload; more is better", "actions/s", func(r *Result) Figure { return r.ActionsPerSec }},
		{"99th percentile of latency", "by workload; less is better", "ms", func(r *Result) Figure { return r.Latency.P99 }},
	} {
		svg, err := c.draw(r)
		if err != nil {
			return nil, err
		}
		if svg != "" {
			list = append(list, svg)
		}
	}
	return list, nil
}

// html returns the figures for a page.
func (f *figures) html() template.HTML {
	table := f.table
	table.Title, table.Subtitle = f.name, f.about
	return f.facts.HTML() + table.HTML()
}
