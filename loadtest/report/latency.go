package report

import (
	"fmt"
	"html/template"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// Curve is one line of a plot of latency.
type Curve struct {
	Name   string
	Values []hdrhistogram.Bracket // in µs, by percentile; see Histogram.CumulativeDistribution
	Strong bool                   // the line that readers look for
}

// mostNines ends the axis of percentiles: 99.999 %.
const mostNines = 5

// Latency draws curves of milliseconds by percentile, or nothing if they have no points. what is what
// took so long, in the plural. The percentiles are on the axis that HdrHistogram's plots have: 0, 90,
// 99, 99.9 at equal distances. Where there are several curves the milliseconds are on a logarithmic
// axis.
func Latency(title, what string, curves []Curve) (template.HTML, error) {
	p := NewPlot(title, "percent of the "+what+" took at most", "ms")
	p.About = "Read upwards from 99: of 100 " + what + " 99 took at most so many milliseconds. " +
		"The further to the right, the rarer; from one mark to the next ten times as rare."
	lowest := 0.0
	if len(curves) > 1 {
		lowest = 0.01 // a logarithm has no zero
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Subtitle = "milliseconds by percentile; lower is better; the scale is logarithmic"
	} else {
		p.Subtitle = "milliseconds by percentile; lower is better"
	}
	right := 1.0
	for _, c := range curves {
		points := c.points(lowest)
		if len(points) == 0 {
			continue
		}
		if err := p.Line(c.Name, points, c.Strong); err != nil {
			return "", err
		}
		right = max(right, points[len(points)-1].X)
	}
	p.X.Min, p.X.Max = 0, math.Ceil(right)
	p.X.Tick.Marker = percentTicks(int(p.X.Max))
	if len(curves) == 1 {
		p.Y.Min = 0
	}
	return p.HTML(Width, Height)
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
