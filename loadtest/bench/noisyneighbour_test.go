package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/report"
	"roomd/lockmgr/redistest"
)

func TestNeighbours(t *testing.T) {
	redistest.Thorough(t) // six attacks
	b := newBench(t, redistest.Start(t).URL())
	b.duration, b.rounds, b.pace = 200*time.Millisecond, 1, playerPace
	all, err := b.measureNeighbours(t.Context(), 50)
	redistest.OK(t, err)
	r := &Report{Neighbours: all}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	for _, name := range worker.Attacks() {
		n := all.Attacks[name]
		if n == nil || n.Actions == 0 || !n.Ratio.IsKnown() || !n.Ratio50.IsKnown() || len(n.Alone.Each) != 1 || n.Attack.Connections == 0 || n.Attack.MiB == 0 {
			t.Errorf("%s: %+v", name, n)
		}
	}
	if n := b.rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil || !strings.Contains(page.String(), `class="chart"`) || !strings.Contains(page.String(), "half-open") {
		t.Errorf("%v\n%s", err, &page)
	}
}

// neighbour returns what players notice on a server of that kind beside an attack.
func neighbour(t *testing.T, kind, attack string) (*Neighbour, error) {
	t.Helper()
	b := newBench(t, redistest.Start(t).URL())
	b.duration, b.rounds, b.pace = 500*time.Millisecond, 1, 50*time.Millisecond
	n := newNeighbour()
	err := b.tryNeighbour(t.Context(), kind, attack, "x", 20, n)
	n.relate()
	return n, err
}

// A server that stands still while somebody floods it is seen by all actions that were due
// meanwhile, although each player has only one under way: most wait long before they are sent.
func TestNeighbours_ServerThatStandsStill(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	n, err := neighbour(t, stalling, "flood")
	redistest.OK(t, err)
	if n.Beside.P50 < 1000 || n.Ratio < neighbourGoal {
		t.Errorf("alone %+v, beside %+v", n.Alone, n.Beside)
	}
	var table bytes.Buffer
	all := &Neighbours{Attacks: map[string]*Neighbour{"flood": n}}
	if err := all.figures().writeText(&table); err != nil || !strings.Contains(table.String(), "!"+n.Ratio.Text("%.2f")) {
		t.Errorf("%v\n%s", err, &table)
	}
}

// An attack that changes nothing for the players is one, too.
func TestNeighbours_Flood(t *testing.T) {
	t.Parallel() // it mostly waits
	n, err := neighbour(t, worker.Node, "flood")
	redistest.OK(t, err)
	if wrong := n.wrong(); len(wrong) > 0 || !n.Ratio.IsKnown() || n.Attack.Connections == 0 {
		t.Errorf("%q, %+v", wrong, n)
	}
}

func TestNeighbours_PlayersCutOff(t *testing.T) {
	t.Parallel() // it mostly waits
	n, err := neighbour(t, impatient, "slow-frame")
	redistest.OK(t, err)
	if wrong := n.wrong(); len(wrong) != 1 || !strings.HasPrefix(wrong[0], "players were cut off") {
		t.Errorf("%q", wrong)
	}
	if _, err := neighbour(t, dropping, "flood"); err == nil || !strings.Contains(err.Error(), "of 20 players are in") {
		t.Errorf("%v", err)
	}
}

func TestNeighbours_Wrong(t *testing.T) {
	for want, spoil := range map[string]func(*Neighbour){
		"":                       func(*Neighbour) {},
		"refused: 2× busy":       func(n *Neighbour) { n.Refused = map[string]int64{"busy": 2} },
		"not one action":         func(n *Neighbour) { n.Actions = 0 },
		"there was no attack":    func(n *Neighbour) { n.Attack.MiB = 0 },
		"no server":              func(n *Neighbour) { n.Failure = "no server" },
		"cut off: 1× reset here": func(n *Neighbour) { n.Failed = map[string]int64{"reset here": 1} },
	} {
		n := &Neighbour{Actions: 1, Attack: Attack{MiB: 1}}
		spoil(n)
		err := (&Report{Neighbours: &Neighbours{Attacks: map[string]*Neighbour{"flood": n}}}).Err()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, list := range map[report.Figure][]report.Figure{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7}} {
		if got := report.Median(list); got != want {
			t.Errorf("%v: %v", list, got)
		}
	}
	if !math.IsNaN(float64(report.Median[report.Figure](nil))) {
		t.Error("a median of nothing")
	}
}
