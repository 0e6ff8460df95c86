package bench

import (
	"time"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
)

// actions is what the actors' tallies count: whatever an action is in the workload.
const actions = "actions"

// measurement is what actors did in the measured time, and what that took.
type measurement struct {
	actors []*tally.Tally // of each actor; an unknown action is one that was cut off
	took   time.Duration  // the measured time
	used   usage          // in it
}

// extend adds what the same actors did in another time.
func (m *measurement) extend(later *measurement) {
	if m.actors == nil {
		m.actors = make([]*tally.Tally, len(later.actors))
		for i := range m.actors {
			m.actors[i] = new(tally.Tally)
		}
	}
	for i, t := range later.actors {
		m.actors[i].Add(t)
	}
	m.took += later.took
	m.used = m.used.plus(later.used)
}

// actions returns how many actions each actor had.
func (m *measurement) actions() (each []int64) {
	for _, t := range m.actors {
		each = append(each, t.Of(actions).Done)
	}
	return each
}

// total returns how many actions there were.
func (m *measurement) total() (sum int64) {
	for _, n := range m.actions() {
		sum += n
	}
	return sum
}

// perSecond returns how many actions there were in a second.
func (m *measurement) perSecond() report.Figure {
	if m.took <= 0 {
		return 0
	}
	return report.Figure(float64(m.total()) / m.took.Seconds())
}
