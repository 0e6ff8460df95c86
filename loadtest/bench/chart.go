package bench

import (
	"html/template"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"

	"roomd/loadtest/report"
)

const (
	chartWidth = 32 * vg.Centimeter
	labelTilt  = math.Pi / 12
	groupWidth = 0.7 * chartWidth // of the bars of all workloads
)

// chart shows one figure of all results on a logarithmic axis. The contenders' bars are
// side by side for each workload.
type chart struct {
	title, subtitle, unit string

	of func(*Result) Figure
}

// draw returns the chart as SVG, or nothing if there are no figures.
func (c chart) draw(r *Report) (template.HTML, error) {
	loads, names := shown(r)
	low, high := c.decades(r)
	if len(loads) == 0 || low > high {
		return "", nil
	}
	p := report.NewPlot(c.title, "", c.unit)
	p.Subtitle, p.About = c.subtitle, "The scale is logarithmic: from one line to the next is ten times as much. A missing bar is a figure that is not known."
	width := groupWidth / vg.Length(max(4, len(loads))*len(names))
	for i, name := range names {
		offset := width * (vg.Length(i) - vg.Length(len(names)-1)/2)
		if err := p.Bars(name, c.heights(r, loads, name, low), width, offset); err != nil {
			return "", err
		}
	}
	p.NominalX(loads...)
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign = labelTilt, vgdraw.XRight
	p.X.Min, p.X.Max = -0.6, float64(len(loads))-0.4
	p.Y.Min, p.Y.Max = 0, float64(high-low)
	p.Y.Tick.Marker = decades(low, high)
	return p.HTML(chartWidth, report.Height)
}

// shown returns the workloads and the contenders that have results.
func shown(r *Report) (loads, names []string) {
	any := make(map[string]*Result)
	for _, w := range workloads {
		results := r.Workloads[w.name]
		if len(results) > 0 {
			loads = append(loads, w.name)
		}
		for name, result := range results {
			any[name] = result
		}
	}
	return loads, inOrder(any)
}

// decades returns the powers of ten around the figures. low is above high if there are
// none.
func (c chart) decades(r *Report) (low, high int) {
	low, high = math.MaxInt, math.MinInt
	for _, results := range r.Workloads {
		for _, result := range results {
			if f := c.of(result); f.IsKnown() && f > 0 {
				up := int(math.Ceil(math.Log10(float64(f))))
				low, high = min(low, up-1), max(high, up)
			}
		}
	}
	return low, high
}

// heights returns one contender's bars above the power of ten where the axis begins.
// gonum's own logarithmic axis cannot have bars, because they begin at zero.
func (c chart) heights(r *Report, loads []string, name string, low int) plotter.Values {
	list := make(plotter.Values, len(loads))
	for i, load := range loads {
		if result := r.Workloads[load][name]; result != nil {
			if f := c.of(result); f.IsKnown() && f > 0 {
				list[i] = math.Log10(float64(f)) - float64(low)
			}
		}
	}
	return list
}

// decades returns the ticks of an axis of powers of ten.
func decades(low, high int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for power := low; power <= high; power++ {
		label := strconv.FormatFloat(math.Pow10(power), 'f', -1, 64)
		ticks = append(ticks, plot.Tick{Value: float64(power - low), Label: label})
		for digit := 2; digit <= 9 && power < high; digit++ {
			ticks = append(ticks, plot.Tick{Value: float64(power-low) + math.Log10(float64(digit))})
		}
	}
	return ticks
}
