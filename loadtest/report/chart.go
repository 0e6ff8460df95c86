package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

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
// Histogram.CumulativeDistribution. what names the measured actions, in the plural. The axis of percentiles is
// that of HdrHistogram's plots: 0, 90, 99, 99.9 at equal distances.
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
