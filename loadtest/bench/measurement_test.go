package bench

import (
	"slices"
	"testing"
	"time"

	"roomd/loadtest/internal/tally"
)

// The same two actors have two turns.
func TestMeasurement_Extend(t *testing.T) {
	var sum measurement
	for range 2 {
		turn := &measurement{took: time.Second, used: usage{1, 2, 3, 4, 5, 6}}
		for n := range 2 {
			actor := new(tally.Tally)
			for range n + 1 {
				actor.Count(actions, tally.Done)
			}
			turn.actors = append(turn.actors, actor)
		}
		sum.extend(turn)
	}
	if each := sum.actions(); !slices.Equal(each, []int64{2, 4}) || sum.total() != 6 || sum.perSecond() != 3 || sum.used != (usage{2, 4, 6, 8, 10, 12}) {
		t.Errorf("%v in %v, %v a second, used %v", each, sum.took, sum.perSecond(), sum.used)
	}
	if none := new(measurement); none.perSecond() != 0 {
		t.Error("nothing was measured, and yet there is a rate")
	}
}
