package chaos

import (
	"strings"
	"testing"
	"time"
)

// What rises by more than a quarter and a slack, or stays when all have left, is named; what comes and goes is not.
func TestJudgeUse(t *testing.T) {
	for what, tt := range map[string]struct {
		length time.Duration
		value  func(part float64) float64
		end    float64
		rises  bool
	}{
		"flat":                     {time.Hour, func(float64) float64 { return 100 }, 20, false},
		"begins with much":         {time.Hour, func(part float64) float64 { return 100 / (part + 0.1) }, 20, false},
		"rises":                    {time.Hour, func(part float64) float64 { return 300 * part }, 20, true},
		"stays when all have left": {time.Hour, func(float64) float64 { return 100 }, 400, true},
		"rises, in a short run":    {time.Minute, func(part float64) float64 { return 300 * part }, 20, false},
	} {
		var used []use
		for i := range 100 {
			used = append(used, use{at: tt.length * time.Duration(i) / 100, values: map[string]float64{nameOf(1, goroutines): tt.value(float64(i) / 100)}})
		}
		used = append(used, use{at: tt.length + time.Second, end: true, values: map[string]float64{nameOf(1, goroutines): tt.end}})
		rising := new(Report).useJudged(used, 1, tt.length)
		if found := len(rising) == 1 && strings.HasPrefix(rising[0].Text, "node 1, goroutines rises"); found != tt.rises || !tt.rises && len(rising) > 0 {
			t.Errorf("%s: %v", what, rising)
		}
	}
}
