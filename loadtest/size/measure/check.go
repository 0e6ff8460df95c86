package measure

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"roomd/loadtest/report"
	"roomd/loadtest/size"
)

// Tolerance is how far a prediction may be from what was measured.
const Tolerance = 0.25

// Comparison is one run, and what was predicted of it.
type Comparison struct {
	Setup   string  `json:"setup"`
	Rate    float64 `json:"actions_per_s"` // wanted
	Figures []Pair  `json:"figures"`
}

// Pair is one figure.
type Pair struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Predicted float64 `json:"predicted"`
	Measured  float64 `json:"measured"`
}

// Error returns by which share of what was measured the prediction is too high, or, if it is negative, too low.
func (p Pair) Error() float64 {
	if p.Measured == p.Predicted {
		return 0
	}
	return p.Predicted/p.Measured - 1
}

// checks are the runs, by their rates: each rate of all players in a second.
var checks = []struct {
	setup
	rates []float64
}{
	{setup{masters: 1, nodes: 1, perRoom: 4}, []float64{500, 1000, 2000, 4000}},
	{setup{masters: 1, nodes: 2, perRoom: 4}, []float64{1000}},
	{setup{masters: 1, nodes: 4, perRoom: 4}, []float64{1000}},
	{setup{masters: 1, nodes: 2, perRoom: 8}, []float64{500}},
	{setup{masters: 2, nodes: 2, perRoom: 4, cluster: true}, []float64{1000}},
	{setup{masters: 3, nodes: 4, perRoom: 4, cluster: true}, []float64{1000}},
}

// Check runs loads at fixed rates on some nodes and masters, and compares what they use with what the costs predict. As with
// [Calibrate], all is done anew for each of the rounds, and the median counts.
func Check(ctx context.Context, cfg Config, c *size.Costs) ([]Comparison, error) {
	var rounds [][]Comparison
	for n := range cfg.Rounds {
		fmt.Fprintf(cfg.Log, "round %d of %d\n", n+1, cfg.Rounds)
		list, err := checkOnce(ctx, cfg, c)
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, list)
	}
	return medians(rounds), nil
}

// medians returns what was predicted, which is the same in each of the rounds, and of what was measured the median of each figure.
func medians(rounds [][]Comparison) []Comparison {
	list := rounds[0]
	for i, c := range list {
		for j := range c.Figures {
			var measured []float64
			for _, r := range rounds {
				measured = append(measured, r[i].Figures[j].Measured)
			}
			c.Figures[j].Measured = report.Median(measured)
		}
	}
	return list
}

// checkOnce does all runs once.
func checkOnce(ctx context.Context, cfg Config, c *size.Costs) (list []Comparison, err error) {
	for _, check := range checks {
		s := check.setup
		s.players = cfg.Players
		found, err := compare(ctx, cfg, c, s, check.rates)
		if err != nil {
			return list, fmt.Errorf("%v: %w", s, err)
		}
		list = append(list, found...)
	}
	return list, nil
}

// compare runs one setup at several rates.
func compare(ctx context.Context, cfg Config, c *size.Costs, s setup, perSecond []float64) (list []Comparison, err error) {
	t, err := openTrial(ctx, cfg, s)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if _, _, err = t.begin(ctx); err == nil {
		err = t.connect(ctx, 0, s.players)
	}
	if err == nil {
		err = t.join(ctx, s.players)
	}
	if err == nil { // the first action of a room and of a connection costs more
		_, err = t.play(ctx, perSecond[len(perSecond)-1], 1, cfg.Round)
	}
	if err != nil {
		return nil, err
	}
	for i, rate := range perSecond {
		fmt.Fprintf(cfg.Log, "%v, %.0f actions/s … ", s, rate)
		r, err := t.play(ctx, rate, cfg.Rounds, cfg.Round)
		if err != nil {
			return nil, err
		}
		m, err := t.memory(ctx, false)
		if err != nil {
			return nil, err
		}
		redis, err := t.masters.read(ctx)
		if err != nil {
			return nil, err
		}
		one, err := against(c, s, rate, r, m, redis.memory)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(cfg.Log, "%.0f actions/s, off by up to %.0f %%\n", r.Actions, 100*one.worst())
		if i < len(perSecond)-1 { // a process keeps what it once needed, so only the last says what the setup needs
			one.Figures = slices.DeleteFunc(one.Figures, func(p Pair) bool { return p.Unit == mebibytes })
		}
		list = append(list, one)
	}
	return list, nil
}

const mebibytes = "MiB"

// against compares what was measured with what the costs predict.
func against(c *size.Costs, s setup, rate float64, r rates, m memory, redis float64) (Comparison, error) {
	l := size.Load{
		Players: int64(s.players), PerRoom: s.perRoom, Actions: rate / float64(s.players), Profile: size.Standalone,
		Cores: 64, Memory: 1 << 40, RedisMemory: 1 << 40, MaxConnections: 1_000_000, Utilization: 1,
	}
	if s.cluster {
		l.Profile = size.Cluster
	}
	p, err := l.At(c, s.nodes, s.masters)
	if err != nil {
		return Comparison{}, err
	}
	return Comparison{s.String(), rate, []Pair{
		{"events", "/s", p.Events, r.Events},
		{"nodes' processors", "% of a core", 100 * p.Nodes.CPU, r.Nodes / 1e4},
		{"Redis' processors", "% of a core", 100 * p.Redis.CPU, r.Redis / 1e4},
		{"memory of a node", mebibytes, p.Nodes.Memory / (1 << 20), m.resident / (1 << 20)},
		{"memory of Redis", mebibytes, p.Redis.Memory / (1 << 20), redis / (1 << 20)},
		{"to clients", "kB/s", p.ToClients / 1e3, r.ToClients / 1e3},
		{"from clients", "kB/s", p.FromClients / 1e3, r.FromClients / 1e3},
		{"to Redis", "kB/s", p.ToRedis / 1e3, r.ToRedis / 1e3},
		{"from Redis", "kB/s", p.FromRedis / 1e3, r.FromRedis / 1e3},
	}}, nil
}

func (c Comparison) worst() (most float64) {
	for _, f := range c.Figures {
		most = max(most, math.Abs(f.Error()))
	}
	return most
}

// Worst returns the largest error of all.
func Worst(list []Comparison) (most float64) {
	for _, c := range list {
		most = max(most, c.worst())
	}
	return most
}

// WriteText writes the comparisons for people.
func WriteText(w io.Writer, list []Comparison) error {
	var t strings.Builder
	for _, c := range list {
		fmt.Fprintf(&t, "%s, %.0f actions/s\n", c.Setup, c.Rate)
		for _, f := range c.Figures {
			fmt.Fprintf(&t, "    %-18s predicted %8.1f  measured %8.1f %-12s %+4.0f %%\n", f.Name, f.Predicted, f.Measured, f.Unit, 100*f.Error())
		}
	}
	fmt.Fprintf(&t, "the largest error is %.0f %%; it may be %.0f %%\n", 100*Worst(list), 100*Tolerance)
	_, err := io.WriteString(w, t.String())
	return err
}
