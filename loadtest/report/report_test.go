package report

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot/plotter"

	"roomd/loadtest/report/reporttest"
)

func TestPage(t *testing.T) {
	var page strings.Builder
	err := Page{
		Command: "run", Question: "Right?", Verdict: "<consistent>", Good: true, Problems: []string{"a < b"}, Setup: "<setup>",
		Sections: []Section{
			{ID: "first", Title: "First & last", Parts: []template.HTML{"<svg></svg>", List([]string{"张三 & <b>"})}},
			{ID: "empty", Title: "Nothing", Parts: []template.HTML{"", List(nil), (&Facts{}).HTML(), (&Table{}).HTML()}},
		},
		Style: ".mark { color: red; }",
	}.Write(&page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"roomload run: &lt;consistent&gt;", `class="verdict good"`, "<li>a &lt; b</li>", "&lt;setup&gt;", "First &amp; last",
		"<li>张三 &amp; &lt;b&gt;</li>", "<svg></svg>", ".mark { color: red; }", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %s on the page\n%s", want, &page)
		}
	}
	if strings.Contains(page.String(), "http") || strings.Contains(page.String(), "Nothing") {
		t.Error("the page is not self-contained, or has an empty section")
	}
	if e := reporttest.Elements(t, page.String()); e["section"] != 1 || e["script"] != 0 {
		t.Errorf("%v", e)
	}
}

// made is a table with all there can be in one.
func made() *Table {
	return &Table{
		Title: "<title>", Subtitle: "about", Columns: []Column{{Head: ""}, {Head: "a<b", About: "<means>"}, {Head: "c", Group: "g"}, {Head: "d", Group: "g", Words: true}},
		Rows:  []Row{{Cells: []string{"<张三>", "1", "2", "3"}, Bad: 2}, {Cells: []string{"z", "4", "5", "6"}, Strong: true, Good: 1}},
		Notes: []string{"z: <note>"}, About: "<figures>",
	}
}

// Both forms of a table have every row.
func TestTable(t *testing.T) {
	var text strings.Builder
	if err := made().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	want := "<title>: about\n" +
		"      a<b  | g:  c  d\n" +
		"<张三>    1        2  3\n" +
		"z       4        5  6\n" +
		"  z: <note>\n"
	if text.String() != want {
		t.Errorf("the text is\n%s", &text)
	}
	html := string(made().HTML())
	for _, want := range []string{
		`<th class="group" scope="colgroup" colspan="2">g</th>`, `title="&lt;means&gt;">a&lt;b</th>`, `<th scope="row">&lt;张三&gt;</th><td>1</td><td class="bad">2</td><td class="words">3</td>`,
		`<tr class="strong"><th scope="row">z</th><td class="good">4</td><td>5</td>`, "<li>z: &lt;note&gt;</li>", "&lt;figures&gt;", "<dt>a&lt;b</dt><dd>&lt;means&gt;</dd>",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("no %s in\n%s", want, html)
		}
	}
	if e := reporttest.Elements(t, html); e["tr"] != 4 || e["pre"] != 0 {
		t.Errorf("%v", e)
	}
}

func TestFacts(t *testing.T) {
	f := &Facts{Rows: []Fact{{Name: "größe", Text: "1 < 2", About: "means"}, {Name: "b", Text: "2", Class: "bad"}}}
	var text strings.Builder
	if err := f.WriteText(&text, 3); err != nil || text.String() != "größe  1 < 2\nb      2\n" {
		t.Errorf("%v\n%s", err, &text)
	}
	html := string(f.HTML())
	if e := reporttest.Elements(t, html); e["tr"] != 2 || !strings.Contains(html, "<td>1 &lt; 2</td>") || !strings.Contains(html, `<tr class="bad">`) {
		t.Errorf("the page has\n%s", html)
	}
}

// The letters and the colours of a plot are those of the page, in either theme.
func TestPlotFollowsThePage(t *testing.T) {
	p := NewPlot("a & b", "x", "y")
	for i := range colors + 1 {
		if err := p.Line(fmt.Sprintf("line <%d>", i), plotter.XYs{{X: 0, Y: float64(i)}, {X: 1, Y: 2}}, i == 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Bars("bars", plotter.Values{1, 2}, 5, 0); err != nil {
		t.Fatal(err)
	}
	html, err := p.HTML(Width, Height)
	if err != nil {
		t.Fatal(err)
	}
	e := reporttest.Elements(t, string(html))
	if e["text"] == 0 || e["title"] < colors+2 {
		t.Errorf("%v", e)
	}
	for _, want := range []string{`aria-label="a &amp; b"`, "var(--ink)", "var(--grid)", "var(--s0)", "var(--s7)", "<title>line &lt;8&gt;</title>", "line &lt;3&gt;", `stroke-dasharray="6 3"`, `class="fill1"`} {
		if !strings.Contains(string(html), want) {
			t.Errorf("no %s in the plot", want)
		}
	}
	if found := regexp.MustCompile(`font-family|#[0-9A-Fa-f]{6}|http`).FindString(string(html)); found != "" {
		t.Errorf("the plot has a %s of its own:\n%s", found, html)
	}
}

// A letter counts as one, whatever bytes it has.
func TestColumns(t *testing.T) {
	var table strings.Builder
	if err := Columns(&table, [][]string{{"name", "é·", "of"}, {"a", "1"}, {"long name", "10", "–"}}); err != nil {
		t.Fatal(err)
	}
	want := "name       é·  of\n" +
		"a           1\n" +
		"long name  10   –\n"
	if table.String() != want {
		t.Errorf("the table is\n%s", &table)
	}
}

func TestLatency(t *testing.T) {
	h := hdrhistogram.New(1, 1_000_000, 3)
	for us := range int64(1000) {
		_ = h.RecordValue(us)
	}
	values := h.CumulativeDistribution()
	for name, curves := range map[string][]Curve{
		"one":  {{Values: values}},
		"many": {{Name: "fast", Values: values}, {Name: "absent"}, {Name: "slow", Values: values, Strong: true}},
	} {
		svg, err := Latency("Latency", "actions", curves)
		if err != nil || !strings.Contains(string(svg), "<svg") || !strings.Contains(string(svg), "99.9") {
			t.Errorf("%s: %v, %.80s", name, err, svg)
		}
		if strings.Contains(string(svg), ">slow<") != (name == "many") || strings.Contains(string(svg), ">absent<") {
			t.Errorf("%s: the legend is wrong", name)
		}
	}
	if svg, err := Latency("Latency", "actions", []Curve{{Name: "nothing"}}); svg != "" || err != nil {
		t.Errorf("without points: %v, %.80s", err, svg)
	}
}
