package bench

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"time"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/report"
)

const (
	neighboursName = "neighbours"
	neighbourGoal  = 1.5 // times the 99th percentile alone

	defaultPlayers = 500
	defaultRounds  = 3

	// playerPace is the time between two actions of a player.
	playerPace = time.Second
)

// Neighbours is what players notice of clients who behave badly.
type Neighbours struct {
	Players int                   `json:"players"`
	Rounds  int                   `json:"rounds"`
	Attacks map[string]*Neighbour `json:"attacks"`
}

// Neighbour is what players notice of one attack. Rounds alone and beside it alternate.
type Neighbour struct {
	Actions int           `json:"actions"` // of the players, in all rounds
	Alone   Rounds        `json:"alone"`
	Beside  Rounds        `json:"beside"`
	Ratio50 report.Figure `json:"p50_ratio"` // of the medians, beside to alone
	Ratio   report.Figure `json:"p99_ratio"` // the same

	Attack  Attack           `json:"attack"`
	Refused map[string]int64 `json:"refused,omitempty"` // actions of players, by the answer
	Failed  map[string]int64 `json:"failed,omitempty"`  // players who were cut off, and why
	Failure string           `json:"failure,omitempty"`
}

// Rounds is the latency of the players' actions, in milliseconds from when each was due.
type Rounds struct {
	P50     report.Figure   `json:"p50_ms"`      // the median of the rounds
	P99     report.Figure   `json:"p99_ms"`      // the same
	Each    []report.Figure `json:"p99_each_ms"` // of each round
	LateP99 report.Figure   `json:"late_p99_ms"` // how late the players' own process was; the worst round

	p50s []report.Figure // of each round
}

// Attack is what attackers did, in all rounds.
type Attack struct {
	Connections int64            `json:"connections"` // opened, or tried to
	MiB         report.Figure    `json:"written_mib"`
	Ended       map[string]int64 `json:"ended,omitempty"` // by the server, by how it did it
}

// measureNeighbours measures all attacks. It returns an error if ctx has ended.
func (b *bench) measureNeighbours(ctx context.Context, players int) (*Neighbours, error) {
	all := &Neighbours{Players: players, Rounds: b.rounds, Attacks: make(map[string]*Neighbour)}
	for _, attack := range worker.Attacks() {
		prefix := b.begin(neighboursName + ": " + attack)
		n := newNeighbour()
		err := b.tryNeighbour(ctx, worker.Node, attack, prefix, players, n)
		err, stopped := b.finish(ctx, prefix, err)
		if stopped != nil {
			return nil, stopped
		}
		if err != nil {
			n.Failure = err.Error()
		}
		n.relate()
		all.Attacks[attack] = n
		fmt.Fprintf(b.log, "p99 %s ms, alone %s ms\n", n.Beside.P99.Text("%.2f"), n.Alone.P99.Text("%.2f"))
	}
	return all, nil
}

func newNeighbour() *Neighbour {
	return &Neighbour{Attack: Attack{Ended: make(map[string]int64)}, Refused: make(map[string]int64), Failed: make(map[string]int64)}
}

// tryNeighbour lets players play by turns alone and beside an attack.
func (b *bench) tryNeighbour(ctx context.Context, kind, attack, prefix string, players int, n *Neighbour) error {
	p, err := b.openProcesses(ctx, kind, prefix, 0)
	if err != nil {
		return err
	}
	defer p.close()
	p.swarms[0].Close() // one process is enough
	p.swarms = p.swarms[1:]
	o, err := p.connect(ctx, 0, players, worker.ConnectConfig{Join: true})
	if err != nil {
		return err
	}
	if worker.Done(o) < players {
		return fmt.Errorf("%d of %d players are in; %s", worker.Done(o), players, tell(o))
	}
	for range b.rounds {
		for _, r := range []struct {
			rounds *Rounds
			attack string
		}{{&n.Alone, ""}, {&n.Beside, attack}} {
			if _, err := p.settle(ctx); err != nil {
				return err
			}
			if err := b.round(ctx, p, r.attack, n, r.rounds); err != nil {
				return err
			}
		}
	}
	return nil
}

// round is one round, beside an attack if that is named.
func (b *bench) round(ctx context.Context, p *processes, attack string, n *Neighbour, rounds *Rounds) error {
	if attack != "" {
		a, err := worker.StartAttack(ctx, worker.AttackConfig{Name: attack, Address: p.server.URL, Room: p.prefix + "0"})
		if err != nil {
			return err
		}
		defer func() {
			done, err := a.Stop(ctx)
			if err != nil {
				n.Failure = "stop the attack: " + err.Error()
			}
			n.Attack.add(done)
		}()
	}
	played, err := p.swarms[0].Play(ctx, worker.PlayConfig{WarmUp: min(b.duration/4, maxWarmUp), Duration: b.duration, Pace: b.pace})
	if err != nil {
		return err
	}
	n.Actions += int(played.Latency.Recorded())
	_, failures := played.Latency.Errors()
	addKinds(n.Refused, played.Latency.Refusals())
	addKinds(n.Failed, failures)
	l := played.Latency.Latency()
	rounds.p50s, rounds.Each = append(rounds.p50s, l.P50), append(rounds.Each, l.P99)
	if worst := played.Late.Latency().P99; worst.IsKnown() { // no action waited for its time if the server stood still
		rounds.LateP99 = max(rounds.LateP99, worst)
	}
	return nil
}

func (a *Attack) add(done worker.Attacked) {
	a.Connections += done.Connections
	a.MiB += report.Figure(float64(done.Written) / (1 << 20))
	addKinds(a.Ended, done.Ended)
}

// relate computes the medians and ratios.
func (n *Neighbour) relate() {
	for _, r := range []*Rounds{&n.Alone, &n.Beside} {
		r.P50, r.P99 = report.Median(r.p50s), report.Median(r.Each)
	}
	n.Ratio50 = report.Per(float64(n.Beside.P50), float64(n.Alone.P50))
	n.Ratio = report.Per(float64(n.Beside.P99), float64(n.Alone.P99))
}

// wrong returns what is wrong with the result; nil is no result.
func (n *Neighbour) wrong() (list []string) {
	switch {
	case n == nil:
		return nil
	case n.Failure != "":
		return []string{n.Failure}
	}
	if len(n.Failed) > 0 {
		list = append(list, "players were cut off: "+kinds(n.Failed))
	}
	if len(n.Refused) > 0 {
		list = append(list, "players were refused: "+kinds(n.Refused))
	}
	if n.Actions == 0 {
		list = append(list, "not one action")
	}
	if n.Attack.MiB == 0 {
		list = append(list, "there was no attack: "+kinds(n.Attack.Ended))
	}
	return list
}

func (all *Neighbours) problems() (lines []string) {
	for _, name := range worker.Attacks() {
		lines = append(lines, problem(neighboursName+", "+name, all.Attacks[name].wrong())...)
	}
	return lines
}

func (all *Neighbours) figures() *figures {
	f := &figures{
		name: neighboursName,
		about: fmt.Sprintf("%d players who act once a second, alone and beside an attack by turns, %d rounds each; ms from when an action was due, "+
			"medians of rounds and (least–most); the goal is ×1.5", all.Players, all.Rounds),
		table: report.Table{Columns: []report.Column{
			{Head: ""},
			{Head: "alone", Group: "p50 ms", About: "without the attack"}, {Head: "beside", Group: "p50 ms", About: "during the attack"}, {Head: "×alone", Group: "p50 ms", About: "beside divided by alone"},
			{Head: "alone", Group: "p99 ms", About: "99 of 100 actions took at most so long, without the attack"}, {Head: "rounds", Group: "p99 ms", About: "the least and the most of the rounds"},
			{Head: "beside", Group: "p99 ms", About: "the same during the attack"}, {Head: "rounds", Group: "p99 ms"},
			{Head: "×alone", Group: "p99 ms", About: "beside divided by alone; ! is above the goal"},
			{Head: "late p99", Group: "players", About: "how late the players' own process was in the worst round; near the p99, the machine is too busy to say anything"},
			{Head: "actions", Group: "players"}, {Head: "connections", Group: "attackers", About: "that the attackers opened"}, {Head: "MiB", Group: "attackers", About: "that the attackers sent"},
		}, About: "Latency counts from when an action was due, so a server that stands still for a second is seen by all actions of that second."},
	}
	for _, name := range worker.Attacks() {
		n := all.Attacks[name]
		if n != nil {
			f.table.Rows = append(f.table.Rows, n.row(name))
		}
		remarks := n.wrong()
		if n != nil && len(n.Attack.Ended) > 0 {
			remarks = append(remarks, "the server ended connections of attackers: "+kinds(n.Attack.Ended))
		}
		f.table.Notes = append(f.table.Notes, notes(name, remarks)...)
	}
	return f
}

// ratioColumn is where the ratio of a row is.
const ratioColumn = 8

func (n *Neighbour) row(name string) report.Row {
	row := report.Row{Good: ratioColumn}
	mark := ""
	if n.Ratio > neighbourGoal {
		mark, row.Good, row.Bad = "!", 0, ratioColumn
	}
	row.Cells = []string{name, n.Alone.P50.Text("%.2f"), n.Beside.P50.Text("%.2f"), n.Ratio50.Text("%.2f"),
		n.Alone.P99.Text("%.2f"), n.Alone.spread(), n.Beside.P99.Text("%.2f"), n.Beside.spread(), mark + n.Ratio.Text("%.2f"),
		max(n.Alone.LateP99, n.Beside.LateP99).Text("%.2f"), fmt.Sprint(n.Actions), fmt.Sprint(n.Attack.Connections), n.Attack.MiB.Text("%.3f")}
	return row
}

// spread returns the least and the most of the rounds.
func (r *Rounds) spread() string {
	if len(r.Each) == 0 {
		return ""
	}
	return fmt.Sprintf("(%s–%s)", slices.Min(r.Each).Text("%.1f"), slices.Max(r.Each).Text("%.1f"))
}

// chart draws the 99th percentiles alone and beside each attack, or nothing if there are none.
func (all *Neighbours) chart() template.HTML {
	c := report.Chart{Title: "99th percentile of players' latency beside an attack, ms", Subtitle: "less is better", X: report.Axis{Categories: worker.Attacks()}}
	alone, beside := report.Series{Name: "alone"}, report.Series{Name: "beside"}
	for i, name := range worker.Attacks() {
		if n := all.Attacks[name]; n != nil && n.Ratio.IsKnown() {
			alone.Points = append(alone.Points, report.Point{X: float64(i), Y: float64(n.Alone.P99)})
			beside.Points = append(beside.Points, report.Point{X: float64(i), Y: float64(n.Beside.P99)})
		}
	}
	c.Series = []report.Series{alone, beside}
	return c.HTML()
}
