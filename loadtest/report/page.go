// Package report draws the reports of the load test, the bench and the lab in one style.
//
// [Page] is a self-contained web page. [Table] and [Facts] have rows: Text is for a terminal,
// HTML for the page. [Chart] is a figure in the page's colours, in light and dark, which package uplot draws in
// the browser. The package does not know what was measured.
package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/HdrHistogram/hdrhistogram-go"

	"roomd/transport/page/uplot"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS template.CSS
	//go:embed parts.html
	partsHTML string

	pageTemplate  = template.Must(template.New("page").Parse(pageHTML))
	partTemplates = template.Must(template.New("parts").Parse(partsHTML))
)

// Page is a self-contained web page: it opens offline, and the library inside it draws its charts. The zero
// value is an empty page.
type Page struct {
	Command  string       // of roomload
	Question string       // the question that it answers
	Verdict  string       // in the title
	Good     bool         // shows the verdict as good, otherwise as bad
	Setup    string       // description of the run in a line
	Problems []string     // shown below the title
	Failed   []Link       // links to failures, shown below Problems
	Sections []Section    // those without parts are left out
	Style    template.CSS // in addition to the style of every page
}

// Link is a text with a link to an element of the page.
type Link struct{ To, Text string }

// Section is a part of a page with a heading.
type Section struct {
	ID    string // unique address on the page
	Title string
	About string          // below the title; may be empty
	Parts []template.HTML // empty ones are left out
}

// Write writes the page, which is also XML. It returns the error of w.
func (p Page) Write(w io.Writer) error {
	var sections []Section
	hasCharts := false
	for _, s := range p.Sections {
		all := string(join(s.Parts))
		if strings.TrimSpace(all) != "" {
			sections = append(sections, s)
		}
		hasCharts = hasCharts || strings.Contains(all, `<div class="chart"`)
	}
	p.Sections = sections
	return pageTemplate.Execute(w, struct {
		Page
		Common, ChartStyle template.CSS
		HasCharts          bool
		Script             template.JS
	}{p, pageCSS, template.CSS(uplot.Style), hasCharts,
		template.JS("//<![CDATA[\n" + uplot.Script + "\n" + chartJS + "//]]>")})
}

func join(parts []template.HTML) (all template.HTML) {
	for _, part := range parts {
		all += part
	}
	return all
}

// part executes a template of parts.html. It panics on an error, which is a bug of the template.
func part(name string, data any) template.HTML {
	var b strings.Builder
	if err := partTemplates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return template.HTML(b.String())
}

// Facts are lines with a name and a text each, for a terminal and for a page.
type Facts struct {
	Title string // for the page; may be empty
	Rows  []Fact
	About string // explanation, for the page
}

// Fact is a line of Facts.
type Fact struct {
	Name, Text string
	About      string // meaning, for the page
	Class      string // "good", "bad" or "", for the page
}

// Names returns the names of facts.
func Names(facts []Fact) (names []string) {
	for _, f := range facts {
		names = append(names, f.Name)
	}
	return names
}

// CheckNames returns an error about a flag of that name if one of its values is not known.
func CheckNames(flag string, values, known []string) error {
	for _, value := range values {
		if !slices.Contains(known, value) {
			return fmt.Errorf("--%s is %q, it must be one of %s", flag, value, strings.Join(known, ", "))
		}
	}
	return nil
}

// Text returns a line for each fact. Names are padded to width.
func (f *Facts) Text(width int) string {
	for _, row := range f.Rows {
		width = max(width, utf8.RuneCountInString(row.Name))
	}
	var b strings.Builder
	for _, row := range f.Rows {
		fmt.Fprintf(&b, "%-*s  %s\n", width, row.Name, row.Text)
	}
	return b.String()
}

// HTML returns the facts for a page, or nothing if there are none.
func (f *Facts) HTML() template.HTML {
	if len(f.Rows) == 0 {
		return ""
	}
	return part("facts", f)
}

// List returns lines of text for a page, or nothing if there are none.
func List(lines []string) template.HTML { return part("list", lines) }

// Figure is a number that may be unknown: NaN, and null in JSON.
type Figure float64

// Per returns x divided by n, unknown if n is zero.
func Per(x, n float64) Figure {
	if n == 0 {
		return Figure(math.NaN())
	}
	return Figure(x / n)
}

// Median returns the median, the mean of the two middle values, or NaN, which is an unknown [Figure], for an
// empty list.
func Median[F ~float64](list []F) F {
	if len(list) == 0 {
		return F(math.NaN())
	}
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// IsKnown reports whether f is a number.
func (f Figure) IsKnown() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// Text returns the number in a format of fmt, or a dash.
func (f Figure) Text(format string) string {
	if !f.IsKnown() {
		return "–"
	}
	return fmt.Sprintf(format, float64(f))
}

// MarshalJSON writes four significant digits, because a run is not more precise.
func (f Figure) MarshalJSON() ([]byte, error) {
	if !f.IsKnown() {
		return []byte("null"), nil
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', 4, 64), 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(rounded)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (f *Figure) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*f = Figure(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(f))
}

//go:embed chart.js
var chartJS string

// Chart is a figure for a page: lines over numbers, or bars over categories.
type Chart struct {
	Title    string
	Subtitle string // how to read it, briefly
	About    string // its message; may be empty
	X, Y     Axis
	Series   []Series
	Spans    []Span // parts of X, behind the lines
}

// Span is a part of the X axis with an explanation.
type Span struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Name string  `json:"name"`
}

// Axis is one axis of a chart.
type Axis struct {
	Label      string   `json:"label,omitempty"`
	Ticks      []Tick   `json:"ticks,omitempty"`      // empty if the page chooses them
	Categories []string `json:"categories,omitempty"` // of bars, whose series stand side by side in each
	Log        bool     `json:"log,omitempty"`        // logarithmic, without zero
}

// Tick is a mark of an axis.
type Tick struct {
	At   float64 `json:"at"`
	Text string  `json:"text"`
}

// Series is one line, or the bars of one colour.
type Series struct {
	Name   string
	Points []Point // sorted by X; for bars, X is the index of the category
	Strong bool    // emphasized
}

// Point is a value of a series.
type Point struct{ X, Y float64 }

// HTML returns the chart for a page, or nothing if it has no points. Series without points are left out.
func (c Chart) HTML() template.HTML {
	type series struct {
		Name   string     `json:"name"`
		Strong bool       `json:"strong,omitempty"`
		Values []*float64 `json:"values"` // null where the series has no point
	}
	data := struct {
		X      Axis      `json:"x"`
		Y      Axis      `json:"y"`
		At     []float64 `json:"at"`
		Series []series  `json:"series"`
		Spans  []Span    `json:"spans,omitempty"`
	}{X: c.X, Y: c.Y, Spans: c.Spans}
	c.Series = slices.DeleteFunc(slices.Clone(c.Series), func(s Series) bool { return len(s.Points) == 0 })
	if len(c.Series) == 0 {
		return ""
	}
	// A gap of one bar precedes each category.
	place := func(i int, x float64) float64 {
		if len(c.X.Categories) == 0 {
			return x
		}
		return x*float64(len(c.Series)+1) + float64(i)
	}
	for i, s := range c.Series {
		for _, p := range s.Points {
			data.At = append(data.At, place(i, p.X))
		}
	}
	slices.Sort(data.At)
	data.At = slices.Compact(data.At)
	for i, s := range c.Series {
		values := make([]*float64, len(data.At))
		for _, p := range s.Points {
			at, _ := slices.BinarySearch(data.At, place(i, p.X))
			values[at] = &p.Y
		}
		data.Series = append(data.Series, series{s.Name, s.Strong, values})
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // a value is no number: a bug
	}
	return part("chart", struct {
		Chart
		Data template.JS
	}{c, template.JS(text)})
}

// mostNines ends the axis of percentiles: 99.999 %.
const mostNines = 5

// Latency draws milliseconds by percentile, or nothing without values; these are in µs, as from
// Histogram.CumulativeDistribution. what names the measured actions, in the plural. The axis of percentiles is as in
// HdrHistogram's plots: 0, 90, 99, 99.9 at equal distances.
func Latency(title, what string, values []hdrhistogram.Bracket) template.HTML {
	var s Series
	right := 1.0
	for _, b := range values { // except the maximum, which has infinitely many nines
		if nines := -math.Log10(1 - b.Quantile/100); nines <= mostNines {
			s.Points = append(s.Points, Point{nines, float64(b.ValueAt) / 1000})
			right = max(right, nines)
		}
	}
	c := Chart{
		Title: title, Subtitle: "milliseconds by percentile; lower is better",
		About: "Read upwards from 99: of 100 " + what + " 99 took at most so many milliseconds. " +
			"The further to the right, the rarer; from one mark to the next ten times as rare.",
		X: Axis{Label: "percent of the " + what + " took at most"}, Y: Axis{Label: "ms"}, Series: []Series{s},
	}
	for i, percent := range []float64{0, 90, 99, 99.9, 99.99, 99.999}[:int(math.Ceil(right))+1] {
		c.X.Ticks = append(c.X.Ticks, Tick{float64(i), fmt.Sprint(percent)})
	}
	return c.HTML()
}
