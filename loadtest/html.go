package loadtest

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

//go:embed report.html
var reportHTML string

var reportPage = template.Must(template.New("report").Parse(reportHTML))

// WriteHTML writes the report as one self-contained page: the table, actions per
// second over time, and latency by percentile.
func (r *Report) WriteHTML(w io.Writer) error {
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		return err
	}
	rate, err := r.plotRate()
	if err != nil {
		return err
	}
	latency, err := r.plotLatency()
	if err != nil {
		return err
	}
	return reportPage.Execute(w, map[string]any{
		"Verdict": r.Verdict, "Good": r.Consistent(), "Table": table.String(), "Rate": rate, "Latency": latency,
	})
}

func (r *Report) plotRate() (template.HTML, error) {
	var line plotter.XYs
	before := Sample{}
	for _, s := range r.Samples {
		if d := s.Seconds - before.Seconds; d > 0 {
			line = append(line, plotter.XY{X: s.Seconds, Y: float64(s.Actions-before.Actions) / d})
		}
		before = s
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Actions per second", "seconds", "actions/s"
	p.Y.Min = 0
	return draw(p, line)
}

// plotLatency has the percentiles on the axis that HdrHistogram's plots have: at
// equal distances 0, 90, 99, 99.9 percent.
func (r *Report) plotLatency() (template.HTML, error) {
	var line plotter.XYs
	nines := func(percent float64) float64 { return -math.Log10(1 - percent/100) }
	top := 1.0
	for _, c := range r.Curve {
		if c.Percent < 100 {
			line = append(line, plotter.XY{X: nines(c.Percent), Y: c.Milliseconds})
			top = max(top, nines(c.Percent))
		}
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Latency", "percent of the actions took at most", "ms"
	p.Y.Min = 0
	var ticks []plot.Tick
	for i, percent := range []float64{0, 90, 99, 99.9, 99.99, 99.999} {
		if float64(i) <= top {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: fmt.Sprint(percent)})
		}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	return draw(p, line)
}

// draw returns the plot with its line as SVG.
func draw(p *plot.Plot, points plotter.XYs) (template.HTML, error) {
	if len(points) == 0 {
		return "", nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return "", err
	}
	line.Color, line.Width = color.RGBA{R: 0x1f, G: 0x6f, B: 0xb4, A: 0xff}, vg.Points(1.5)
	p.Add(plotter.NewGrid(), line)
	canvas := vgsvg.New(16*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(vgdraw.New(canvas))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return "", err
	}
	// The XML declaration in front has no place inside a page.
	return template.HTML(svg.Bytes()[max(0, bytes.Index(svg.Bytes(), []byte("<svg"))):]), nil
}
