package lab

import (
	"fmt"
	"math"
	"math/rand/v2"

	"roomd/loadtest/report"
)

// Draw is how likely two of many callers draw the same value.
type Draw struct {
	Discipline string  `json:"discipline"`
	About      string  `json:"about"`
	Values     int     `json:"values"`
	Callers    int     `json:"callers"`
	Computed   float64 `json:"computed"`
	Simulated  float64 `json:"simulated"` // share of the trials
}

// How many callers draw, and how often the lab lets them.
const (
	drawCallers = 1000
	drawTrials  = 10_000
)

// newDraws computes and simulates the draws of the articles.
func newDraws(seed uint64) []Draw {
	draws := []Draw{
		{Discipline: "timestamp", About: "a number from 1,000,000 to 9,999,999", Values: timestampHigh - timestampLow + 1},
		{Discipline: "set-nx-lua", About: "uniqid, the microsecond, within one second", Values: 1_000_000},
		{Discipline: "set-rand-lua", About: "a number from 1 to 100,000", Values: 100_000},
	}
	for i := range draws {
		d := &draws[i]
		d.Callers = drawCallers
		d.Computed = sameChance(d.Values, d.Callers)
		d.Simulated = sameShare(rand.New(rand.NewPCG(seed, uint64(d.Values))), d.Values, d.Callers)
	}
	return draws
}

// sameChance returns how likely two of the callers draw the same of so many values.
func sameChance(values, callers int) float64 {
	differ := 0.0 // its logarithm
	for i := range callers {
		differ += math.Log1p(-float64(i) / float64(values))
	}
	return -math.Expm1(differ)
}

// sameShare returns in how many of the trials two drew the same.
func sameShare(random *rand.Rand, values, callers int) float64 {
	same := 0
	drawn := make(map[int]bool, callers)
	for range drawTrials {
		clear(drawn)
		for range callers {
			value := random.IntN(values)
			if drawn[value] {
				same++
				break
			}
			drawn[value] = true
		}
	}
	return float64(same) / drawTrials
}

// drawn returns the draws.
func (r *Report) drawn() *report.Table {
	t := &report.Table{
		Title:    "same values",
		Subtitle: fmt.Sprintf("how likely two of %d callers draw the same; simulated %d times, with the seed", drawCallers, drawTrials),
		Columns:  []report.Column{{Head: "of"}, {Head: "computed"}, {Head: "simulated"}},
	}
	percent := func(p float64) string { return fmt.Sprintf("%.1f %%", 100*p) }
	for _, d := range r.Draws {
		t.Rows = append(t.Rows, report.Row{Cells: []string{d.Discipline + ": " + d.About, percent(d.Computed), percent(d.Simulated)}})
	}
	return t
}
