package report

import (
	"encoding/json"
	"html/template"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

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
		Rows:  []Row{{Cells: []string{"<张三>", "1", "2", "3"}}, {Cells: []string{"z", "4", "5", "6"}, Strong: true}},
		Notes: []string{"z: <note>"}, About: "<figures>",
	}
}

// Both forms of a table have every row.
func TestTable(t *testing.T) {
	want := "<title>: about\n" + "      a<b  | g:  c  d\n" + "<张三>    1        2  3\n" + "z       4        5  6\n" +
		"  z: <note>\n"
	if text := made().Text(); text != want {
		t.Errorf("the text is\n%s", text)
	}
	html := string(made().HTML())
	for _, want := range []string{
		`<th class="group" scope="colgroup" colspan="2">g</th>`, `title="&lt;means&gt;">a&lt;b</th>`, `<th scope="row">&lt;张三&gt;</th><td>1</td><td>2</td><td class="words">3</td>`,
		`<tr class="strong"><th scope="row">z</th><td>4</td><td>5</td>`, "<li>z: &lt;note&gt;</li>", "&lt;figures&gt;", "<dt>a&lt;b</dt><dd>&lt;means&gt;</dd>",
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
	if text := f.Text(3); text != "größe  1 < 2\nb      2\n" {
		t.Errorf("the text is\n%s", text)
	}
	html := string(f.HTML())
	if e := reporttest.Elements(t, html); e["tr"] != 2 || !strings.Contains(html, "<td>1 &lt; 2</td>") || !strings.Contains(html, `<tr class="bad">`) {
		t.Errorf("the page has\n%s", html)
	}
}

// chartData is what a page's script gets of a chart.
type chartData struct {
	At     []float64
	Series []struct {
		Name   string
		Values []*float64
	}
}

// dataOf returns the data of a chart.
func dataOf(t *testing.T, html template.HTML) (d chartData) {
	t.Helper()
	_, text, _ := strings.Cut(string(html), `<script type="application/json">`)
	text, _, _ = strings.Cut(text, "</script>")
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v in %s", err, html)
	}
	return d
}

// Series with points at different places share one axis, and bars stand side by side.
func TestChart(t *testing.T) {
	lines := Chart{Title: "a & b", Series: []Series{
		{Name: "line </script> <1>", Points: []Point{{0, 1}, {2, 3}}}, {Name: "none"}, {Name: "two", Points: []Point{{1, 5}}},
	}}
	html := lines.HTML()
	if e := reporttest.Elements(t, string(html)); e["script"] != 1 || !strings.Contains(string(html), `aria-label="a &amp; b"`) {
		t.Errorf("%v\n%s", e, html)
	}
	d := dataOf(t, html)
	if !slices.Equal(d.At, []float64{0, 1, 2}) || len(d.Series) != 2 || d.Series[0].Name != "line </script> <1>" ||
		d.Series[0].Values[1] != nil || *d.Series[0].Values[2] != 3 || *d.Series[1].Values[1] != 5 {
		t.Errorf("%+v", d)
	}
	bars := Chart{X: Axis{Categories: []string{"x", "y"}}, Series: []Series{{Name: "a", Points: []Point{{0, 1}, {1, 2}}}, {Name: "b", Points: []Point{{1, 3}}}}}
	if d := dataOf(t, bars.HTML()); !slices.Equal(d.At, []float64{0, 3, 4}) || *d.Series[1].Values[2] != 3 {
		t.Errorf("%+v", d)
	}
	if html := (Chart{Series: []Series{{Name: "none"}}}).HTML(); html != "" {
		t.Errorf("a chart without points: %s", html)
	}
}

// A letter counts as one, whatever bytes it has.
func TestAligned(t *testing.T) {
	text := aligned([][]string{{"name", "é·", "of"}, {"a", "1"}, {"long name", "10", "–"}})
	want := "name       é·  of\n" + "a           1\n" + "long name  10   –\n"
	if text != want {
		t.Errorf("the table is\n%s", text)
	}
}

func TestLatency(t *testing.T) {
	h := hdrhistogram.New(1, 1_000_000, 3)
	for us := range int64(1000) {
		_ = h.RecordValue(us)
	}
	html := Latency("Latency", "actions", h.CumulativeDistribution())
	if d := dataOf(t, html); !strings.Contains(string(html), `"text":"99.9"`) || len(d.Series) != 1 || len(d.Series[0].Values) == 0 {
		t.Errorf("%.80s", html)
	}
	if html := Latency("Latency", "actions", nil); html != "" {
		t.Errorf("without points: %.80s", html)
	}
}
