package measure

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/size"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	worker.Main()
	goleak.VerifyTestMain(m)
}

// tiny is so short that the figures mean nothing.
var tiny = Config{Players: 64, Rate: 200, Rounds: 1, Round: 500 * time.Millisecond, Idle: time.Second, Log: io.Discard, Refusable: 1}

// A Cluster of two masters and two nodes: all players are in, act, and hear of each other, on both masters.
func TestTrial_Cluster(t *testing.T) {
	redistest.Thorough(t)
	redistest.Need(t, "redis-server")
	s := setup{cluster: true, masters: 2, nodes: 2, players: 64, perRoom: 4}
	list, err := compare(t.Context(), tiny, size.Measured(), s, []float64{100, 200})
	redistest.OK(t, err)
	if len(list) != 2 || len(list[0].Figures) != 7 || len(list[1].Figures) != 9 {
		t.Fatalf("%+v", list)
	}
	for _, f := range list[1].Figures {
		if !(f.Measured > 0) || !(f.Predicted > 0) {
			t.Errorf("%s: predicted %v, measured %v", f.Name, f.Predicted, f.Measured)
		}
	}
	var text strings.Builder
	redistest.OK(t, WriteText(&text, list))
	if !strings.Contains(text.String(), "Redis' processors") || !strings.Contains(text.String(), "the largest error") {
		t.Errorf("%s", &text)
	}
}

// All costs are measured, though not well.
func TestCalibrate(t *testing.T) {
	redistest.Thorough(t)
	redistest.Need(t, "redis-server")
	t.Parallel() // it mostly waits
	c, err := Calibrate(t.Context(), tiny)
	redistest.OK(t, err)
	var text strings.Builder
	redistest.OK(t, c.Write(&text))
	if _, err := size.Read(strings.NewReader(text.String())); err != nil {
		t.Errorf("%v\n%s", err, &text)
	}
	for _, name := range []string{size.NodeAction, size.RedisCommit, size.RedisContended, size.NodeMemory, size.RedisMemory, size.BytesAction, size.BytesReply, size.BytesEvent, size.BytesCommit} {
		if c.Values[name] <= 0 {
			t.Errorf("%s is %v", name, c.Values[name])
		}
	}
	if !strings.Contains(c.Machine, "cores") || c.Measured == "" {
		t.Errorf("%q at %q", c.Machine, c.Measured)
	}
}

// A round that something disturbed does not count.
func TestMedian(t *testing.T) {
	m := median([]rates{{Nodes: 10, Growth: 5}, {Nodes: 900, Growth: 1}, {Nodes: 12, Growth: 3}})
	if m.Nodes != 12 || m.Growth != 3 {
		t.Errorf("%+v", m)
	}
	if m := median([]rates{{Redis: 10}, {Redis: 20}}); m.Redis != 15 {
		t.Errorf("%+v", m)
	}
	of := func(measured float64) []Comparison {
		return []Comparison{{Figures: []Pair{{Predicted: 7, Measured: 7}, {Predicted: 8, Measured: measured}}}}
	}
	if list := medians([][]Comparison{of(9), of(800), of(8)}); list[0].Figures[0].Error() != 0 || list[0].Figures[1].Measured != 9 {
		t.Errorf("%+v", list)
	}
}

// What is there without actions is no cost of an action.
func TestPerAction(t *testing.T) {
	r := trialOf{connected: rates{Nodes: 100}, high: rates{Nodes: 1100, Actions: 50}, low: rates{Nodes: 600, Actions: 12.5}}
	if got := r.perAction(func(r rates) float64 { return r.Nodes }); got != 20 {
		t.Errorf("%v", got)
	}
	if got := r.falls(func(r rates) float64 { return r.Nodes }); math.Abs(got-0.5) > 1e-9 { // 40 at a quarter of the rate
		t.Errorf("it falls by %v", got)
	}
}

func TestErrors(t *testing.T) {
	list := []Comparison{{Figures: []Pair{{Predicted: 110, Measured: 100}, {Predicted: 70, Measured: 100}}}, {Figures: []Pair{{Predicted: 0, Measured: 0}}}}
	if got := Worst(list); math.Abs(got-0.3) > 1e-9 {
		t.Errorf("%v", got)
	}
	if got := (Pair{Predicted: 1}).Error(); !math.IsInf(got, 1) {
		t.Errorf("something that was not there at all is off by %v", got)
	}
}

func TestHolding(t *testing.T) {
	for _, of := range []struct{ n, k, want float64 }{{1, 4, 1}, {4, 1, 1}, {2, 2, 1.5}, {1e6, 4, 4}} {
		if got := holding(of.n, of.k); math.Abs(got-of.want) > 1e-4 {
			t.Errorf("%v of %v: %v, want %v", of.k, of.n, got, of.want)
		}
	}
}
