package report

import (
	"html/template"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestPage(t *testing.T) {
	var page strings.Builder
	err := Page{
		Command: "run", Verdict: "<consistent>", Good: true, Problems: []string{"a < b"},
		Parts: []template.HTML{Text("张三 & <b>"), "<svg></svg>"}, Style: ".mark { color: red; }",
	}.Write(&page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"roomload run: &lt;consistent&gt;", `class="verdict good"`, "<b>a &lt; b</b>",
		"<pre>张三 &amp; &lt;b&gt;</pre>", "<svg></svg>", ".mark { color: red; }",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %s on the page\n%s", want, &page)
		}
	}
	if strings.Contains(page.String(), "http") {
		t.Error("the page is not self-contained")
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
		"many": {{"fast", values}, {"absent", nil}, {"slow", values}},
	} {
		svg, err := Latency("Latency", "actions", curves)
		if err != nil || !strings.HasPrefix(string(svg), "<svg") || !strings.Contains(string(svg), "99.9") {
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
