package report

import (
	"html/template"
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// The usual size of a plot.
const (
	Width  = 28 * vg.Centimeter
	Height = 12 * vg.Centimeter
)

// Plot is a figure for a page. Its legend is above it, where it hides no line.
type Plot struct {
	*plot.Plot
	Title    string
	Subtitle string // how to read it, in a few words
	About    string // what it says; may be empty

	entries []entry
}

// entry is a series of a plot, and its line in the legend.
type entry struct {
	Name   string // empty: not in the legend
	Series string // the page's colour: a number below colors, or ink
	Filled bool   // an area
	Width  float64
	Dashes string // as in SVG
}

// NewPlot returns an empty plot with names for its axes.
func NewPlot(title, x, y string) *Plot {
	p := &Plot{Plot: plot.New(), Title: title}
	p.BackgroundColor = nil // the page's
	p.X.Label.Text, p.Y.Label.Text = x, y
	// The letters on the page are about as wide as these, which are used to lay the plot out.
	for _, f := range []*font.Font{&p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font} {
		f.Variant = "Sans"
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColor, gridColor
	grid.Vertical.Width, grid.Horizontal.Width = 0.75, 0.75
	p.Add(grid)
	return p
}

// patterns tell lines of one colour apart.
var patterns = [][]vg.Length{nil, {6, 3}, {1.5, 2.5}, {8, 2, 2, 2}}

// Line adds a line in a colour and a pattern of its own. A line with a name is in the legend. A strong
// one is the one that readers look for; it has the colour of letters.
func (p *Plot) Line(name string, points plotter.XYs, strong bool) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	i := len(p.entries)
	e := entry{Name: name, Series: strconv.Itoa(i % colors), Width: 1.5}
	dashes := patterns[i/colors%len(patterns)]
	if strong {
		e.Series, e.Width, dashes = "ink", 3, nil
	}
	line.Color, line.Dashes, line.Width = marker(i), dashes, vg.Points(e.Width)
	e.Dashes = dashText(dashes)
	p.Add(line)
	p.entries = append(p.entries, e)
	return nil
}

// Bars adds a bar for each place of the X axis, moved by offset from it. Values of 0 have none.
func (p *Plot) Bars(name string, values plotter.Values, width, offset vg.Length) error {
	bars, err := plotter.NewBarChart(values, width)
	if err != nil {
		return err
	}
	i := len(p.entries)
	bars.Color, bars.LineStyle.Width, bars.Offset = marker(i), 0, offset
	p.Add(bars)
	p.entries = append(p.entries, entry{Name: name, Series: strconv.Itoa(i % colors), Filled: true})
	return nil
}

// HTML draws the plot for a page, or nothing if nothing was added to it.
func (p *Plot) HTML(width, height vg.Length) (template.HTML, error) {
	if len(p.entries) == 0 {
		return "", nil
	}
	svg, err := p.svg(width, height)
	if err != nil {
		return "", err
	}
	var legend []entry
	for _, e := range p.entries {
		if e.Name != "" {
			legend = append(legend, e)
		}
	}
	return part("plot", struct {
		*Plot
		Legend []entry
		SVG    template.HTML
	}{p, legend, svg}), nil
}

// colors is how many colours page.css has for series.
const colors = 8

// Colours that stand for those of the page until svg replaces them.
var gridColor = color.NRGBA{R: 0xfe, G: 0xdb, B: 0, A: 0xff}

// marker stands for the colour of the i-th series.
func marker(i int) color.Color { return color.NRGBA{R: 0xfe, G: 0xdc, B: uint8(i), A: 0xff} }
