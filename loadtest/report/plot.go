package report

import (
	"bytes"
	"fmt"
	"html/template"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The usual size of a plot.
const (
	Width  = 26 * vg.Centimeter
	Height = 12 * vg.Centimeter
)

// SVG draws a plot for a page.
func SVG(p *plot.Plot, width, height vg.Length) (template.HTML, error) {
	canvas := vgsvg.New(width, height)
	p.Draw(vgdraw.New(canvas))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return "", err
	}
	// The XML declaration in front has no place inside a page.
	return template.HTML(svg.Bytes()[max(0, bytes.Index(svg.Bytes(), []byte("<svg"))):]), nil
}

// AddLine adds the i-th line of a plot, in a colour and a pattern of its own. A line
// with a name is in the legend.
func AddLine(p *plot.Plot, i int, name string, points plotter.XYs) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes, line.Width = plotutil.Color(i), plotutil.Dashes(i/7), vg.Points(1.5)
	p.Add(line)
	if name != "" {
		p.Legend.Add(name, line)
	}
	return nil
}

// Curve is one line of a plot of latency.
type Curve struct {
	Name   string
	Values []hdrhistogram.Bracket // in µs, by percentile; see Histogram.CumulativeDistribution
}

// mostNines ends the axis of percentiles: 99.999 %.
const mostNines = 5

// Latency draws curves of milliseconds by percentile, or nothing if they have no
// points. The percentiles are on the axis that HdrHistogram's plots have: 0, 90, 99,
// 99.9 at equal distances. Where there are several curves the milliseconds are on a
// logarithmic axis.
func Latency(title, what string, curves []Curve) (template.HTML, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "percent of the "+what+" took at most", "ms"
	p.Add(plotter.NewGrid())
	lowest := 0.0
	if len(curves) > 1 {
		lowest = 0.01 // a logarithm has no zero
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	right, drawn := 1.0, false
	for i, c := range curves {
		points := c.points(lowest)
		if len(points) == 0 {
			continue
		}
		if err := AddLine(p, i, c.Name, points); err != nil {
			return "", err
		}
		right, drawn = max(right, points[len(points)-1].X), true
	}
	if !drawn {
		return "", nil
	}
	p.X.Min, p.X.Max = 0, math.Ceil(right)
	p.X.Tick.Marker = percentTicks(int(p.X.Max))
	if len(curves) == 1 {
		p.Y.Min = 0
	}
	p.Legend.Top, p.Legend.Left = true, true
	return SVG(p, Width, Height)
}

// points returns the curve by the number of nines of its percentiles, without the
// maximum, which has infinitely many.
func (c Curve) points(lowest float64) (points plotter.XYs) {
	for _, b := range c.Values {
		if nines := -math.Log10(1 - b.Quantile/100); nines <= mostNines {
			points = append(points, plotter.XY{X: nines, Y: max(lowest, float64(b.ValueAt)/1000)})
		}
	}
	return points
}

// percentTicks returns the ticks up to so many nines.
func percentTicks(nines int) (ticks plot.ConstantTicks) {
	for i, percent := range []float64{0, 90, 99, 99.9, 99.99, 99.999}[:nines+1] {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: fmt.Sprint(percent)})
	}
	return ticks
}
