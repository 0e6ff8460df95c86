package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"roomd/loadtest/bench/crew"
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
	Actions int    `json:"actions"` // of the players, in all rounds
	Alone   Rounds `json:"alone"`
	Beside  Rounds `json:"beside"`
	Ratio50 Figure `json:"p50_ratio"` // of the medians, beside to alone
	Ratio   Figure `json:"p99_ratio"` // the same

	Attack  Attack         `json:"attack"`
	Refused map[string]int `json:"refused,omitempty"` // actions of players, by the answer
	Failed  map[string]int `json:"failed,omitempty"`  // players who were cut off, and why
	Failure string         `json:"failure,omitempty"`
}

// Rounds is the latency of the players' actions, in milliseconds from when each was due.
type Rounds struct {
	P50     Figure   `json:"p50_ms"`      // the median of the rounds
	P99     Figure   `json:"p99_ms"`      // the same
	Each    []Figure `json:"p99_each_ms"` // of each round
	LateP99 Figure   `json:"late_p99_ms"` // how late the players' own process was; the worst round

	p50s []Figure // of each round
}

// Attack is what attackers did, in all rounds.
type Attack struct {
	Connections int64          `json:"connections"` // opened, or tried to
	MiB         Figure         `json:"written_mib"`
	Ended       map[string]int `json:"ended,omitempty"` // by the server, by how it did it
}

// measureNeighbours measures all attacks. It returns an error if ctx has ended.
func (b *bench) measureNeighbours(ctx context.Context, players int) (*Neighbours, error) {
	all := &Neighbours{Players: players, Rounds: b.rounds, Attacks: make(map[string]*Neighbour)}
	for _, attack := range crew.Attacks() {
		prefix := b.begin(neighboursName + ": " + attack)
		n := newNeighbour()
		err := b.tryNeighbour(ctx, crew.Node, attack, prefix, players, n)
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
	return &Neighbour{Attack: Attack{Ended: make(map[string]int)}, Refused: make(map[string]int), Failed: make(map[string]int)}
}

// tryNeighbour lets players play by turns alone and beside an attack.
func (b *bench) tryNeighbour(ctx context.Context, kind, attack, prefix string, players int, n *Neighbour) error {
	c, err := b.openCast(ctx, kind, prefix, 0)
	if err != nil {
		return err
	}
	defer c.close()
	c.swarms[0].Close() // one process is enough
	c.swarms = c.swarms[1:]
	o, err := c.connect(ctx, 0, players, crew.ConnectConfig{Join: true})
	if err != nil {
		return err
	}
	if len(o.Took) < players {
		return fmt.Errorf("%d of %d players are in; %s", len(o.Took), players, tell(o))
	}
	for range b.rounds {
		for _, r := range []struct {
			rounds *Rounds
			attack string
		}{{&n.Alone, ""}, {&n.Beside, attack}} {
			if _, err := c.settle(ctx); err != nil {
				return err
			}
			if err := b.round(ctx, c, r.attack, n, r.rounds); err != nil {
				return err
			}
		}
	}
	return nil
}

// round is one round, beside an attack if that is named.
func (b *bench) round(ctx context.Context, c *cast, attack string, n *Neighbour, rounds *Rounds) error {
	if attack != "" {
		a, err := crew.StartAttack(ctx, crew.AttackConfig{Name: attack, Address: c.server.URL, Room: c.prefix + "0"})
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
	played, err := c.swarms[0].Play(ctx, crew.PlayConfig{WarmUp: min(b.duration/4, maxWarmUp), Duration: b.duration, Pace: b.pace})
	if err != nil {
		return err
	}
	n.Actions += len(played.Latency)
	for kind, times := range played.Refused {
		n.Refused[kind] += times
	}
	for kind, times := range played.Failures {
		n.Failed[kind] += times
	}
	latency, late := newTally(), newTally()
	for _, d := range played.Latency {
		latency.record(d)
	}
	for _, d := range played.Late {
		late.record(d)
	}
	l := newLatency(latency.latency)
	rounds.p50s, rounds.Each = append(rounds.p50s, l.P50), append(rounds.Each, l.P99)
	if worst := newLatency(late.latency).P99; worst.IsKnown() { // no action waited for its time if the server stood still
		rounds.LateP99 = max(rounds.LateP99, worst)
	}
	return nil
}

func (a *Attack) add(done crew.Attacked) {
	a.Connections += done.Connections
	a.MiB += Figure(float64(done.Written) / (1 << 20))
	for how, times := range done.Ended {
		a.Ended[how] += times
	}
}

// relate computes the medians and ratios.
func (n *Neighbour) relate() {
	for _, r := range []*Rounds{&n.Alone, &n.Beside} {
		r.P50, r.P99 = median(r.p50s), median(r.Each)
	}
	n.Ratio50 = per(float64(n.Beside.P50), float64(n.Alone.P50))
	n.Ratio = per(float64(n.Beside.P99), float64(n.Alone.P99))
}

// median returns the middle one, the mean of both in the middle, or an unknown figure.
func median(list []Figure) Figure {
	if len(list) == 0 {
		return per(0, 0)
	}
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
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
		list = append(list, "players were cut off: "+tell(crew.Outcome{Failures: n.Failed}))
	}
	if len(n.Refused) > 0 {
		list = append(list, "players were refused: "+tell(crew.Outcome{Refused: n.Refused}))
	}
	if n.Actions == 0 {
		list = append(list, "not one action")
	}
	if n.Attack.MiB == 0 {
		list = append(list, "there was no attack: "+tell(crew.Outcome{Refused: n.Attack.Ended}))
	}
	return list
}
