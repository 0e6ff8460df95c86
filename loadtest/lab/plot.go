package lab

import (
	"bytes"
	"fmt"
	"html/template"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// plotLatency draws each discipline's latency under heavy load as SVG: the
// percentiles at equal distances 0, 90, 99, 99.9, against milliseconds on a
// logarithmic axis.
func (r *Report) plotLatency() (template.HTML, error) {
	p := plot.New()
	p.Title.Text = "Latency under heavy load"
	p.X.Label.Text, p.Y.Label.Text = "percent of the requests took at most", "ms"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	drawn := 0
	for i, row := range r.Disciplines {
		points := row.cell(contention).percentiles()
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return "", err
		}
		line.Color, line.Dashes, line.Width = plotutil.Color(i), plotutil.Dashes(i/7), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(row.Name, line)
		drawn++
	}
	if drawn == 0 {
		return "", nil
	}
	var ticks []plot.Tick
	for i, percent := range []float64{0, 90, 99, 99.9, 99.99} {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: fmt.Sprint(percent)})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Min, p.X.Max = 0, 4
	p.Legend.Top, p.Legend.Left = true, true
	canvas := vgsvg.New(26*vg.Centimeter, 14*vg.Centimeter)
	p.Draw(vgdraw.New(canvas))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return "", err
	}
	// The XML declaration in front has no place inside a page.
	return template.HTML(svg.Bytes()[max(0, bytes.Index(svg.Bytes(), []byte("<svg"))):]), nil
}

// percentiles returns nines against milliseconds.
func (c *Cell) percentiles() plotter.XYs {
	var points plotter.XYs
	for _, b := range c.curve {
		if nines := -math.Log10(1 - b.Quantile/100); nines <= 4 {
			points = append(points, plotter.XY{X: nines, Y: max(0.01, float64(b.ValueAt)/1000)})
		}
	}
	return points
}
