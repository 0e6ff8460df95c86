package measure

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"roomd/loadtest/report"
	"roomd/loadtest/size"
	"roomd/lockmgr/redistest/launch"
)

// Config says how to measure.
type Config struct {
	Players int           // connected in each trial
	Rate    float64       // actions of all players in a second where there are many; where there are few it is an eighth
	Rounds  int           // readings of a trial, and how often all trials are done; the median counts
	Round   time.Duration // how long each takes
	Idle    time.Duration // how long one of idle connections takes: as long as nodes wait between two pings, or these would count too much or too little
	Log     io.Writer     // gets a line about each trial

	// Refusable is the share of the actions that may be answered busy or unknown. Beyond it the machine does not keep up, and a trial fails.
	Refusable float64
}

// journal and feed of the trials that have one, so long that nothing is trimmed.
const (
	longJournal = 5000
	longFeed    = 10_000_000
)

// trialOf is what one trial found.
type trialOf struct {
	setup
	base, idle, playing    memory
	redisBase, redisPlayed float64 // memory
	alone, connected       rates   // without connections, and with those that are idle
	low, high              rates   // with few actions, if that was measured, and with many
}

// perAction returns a rate divided by the actions, without what is there without any.
func (t trialOf) perAction(of func(rates) float64) float64 {
	return (of(t.high) - of(t.connected)) / t.high.Actions
}

// falls returns the exponent by which the costs of actions fall from few to many.
func (t trialOf) falls(of func(rates) float64) float64 {
	few := (of(t.low) - of(t.connected)) / t.low.Actions
	return max(0, min(0.9, math.Log(few/t.perAction(of))/math.Log(t.high.Actions/t.low.Actions)))
}

// garbage returns by which factor the memory that a node needs for its clients is more before a collection than after it.
func (t trialOf) garbage() float64 {
	return (t.playing.resident - t.base.freed) / (t.playing.freed - t.base.freed)
}

// run runs a trial. With both there are at first few actions, and what is idle is measured well.
func run(ctx context.Context, cfg Config, s setup, both bool, perSecond float64) (r trialOf, err error) {
	fmt.Fprintf(cfg.Log, "%v … ", s)
	r.setup = s
	t, err := openTrial(ctx, cfg, s)
	if err != nil {
		return r, err
	}
	defer t.close()
	for _, step := range []func() error{
		func() error {
			m, redis, err := t.begin(ctx)
			r.base, r.redisBase = m, redis.memory
			return err
		},
		func() (err error) {
			if both || s.nodes > 1 {
				r.alone, err = t.rounds(ctx, 1, cfg.Idle)
			}
			return err
		},
		func() error { return t.connect(ctx, 0, s.players) },
		func() (err error) { r.idle, err = t.memory(ctx, false); return err },
		func() (err error) {
			period := cfg.Idle
			if !both { // next to nothing beside many actions
				period = cfg.Round
			}
			r.connected, err = t.rounds(ctx, 1, period)
			return err
		},
		func() (err error) {
			m, err := t.memory(ctx, true)
			r.idle.freed = m.freed
			return err
		},
		func() error { return t.join(ctx, s.players) },
		func() error { _, err := t.play(ctx, perSecond, 1, cfg.Round); return err }, // the first action of a room and of a connection costs more
		func() (err error) { r.high, err = t.play(ctx, perSecond, cfg.Rounds, cfg.Round); return err },
		func() (err error) {
			if both { // last, for the same reason
				r.low, err = t.play(ctx, perSecond/fewer, cfg.Rounds, cfg.Round)
			}
			return err
		},
		func() (err error) { r.playing, err = t.memory(ctx, true); return err },
		func() error {
			redis, err := t.masters.read(ctx)
			r.redisPlayed = redis.memory
			return err
		},
	} {
		if err := step(); err != nil {
			fmt.Fprintln(cfg.Log, "failed")
			return r, err
		}
	}
	fmt.Fprintf(cfg.Log, "%.0f actions/s, %.1f µs of nodes and %.1f µs of Redis an action\n", r.high.Actions,
		r.perAction(func(r rates) float64 { return r.Nodes }), r.perAction(func(r rates) float64 { return r.Redis }))
	return r, nil
}

const (
	tableOf   = 4
	wideTable = 12 // so many more events that their cost shows
	manyNode  = 4
	fewer     = 8 // than the many actions are the few
)

// Calibrate measures all costs on this machine. It starts redis-server, nodes and clients as processes. All trials are done anew for
// each of the rounds, since a machine that others share may be slow for a minute: each cost is the median of what the rounds found.
func Calibrate(ctx context.Context, cfg Config) (*size.Costs, error) {
	c := &size.Costs{Machine: machine(ctx), Measured: size.Today() + version(), Values: make(map[string]float64)}
	found := make(map[string][]float64)
	for n := range cfg.Rounds {
		fmt.Fprintf(cfg.Log, "round %d of %d\n", n+1, cfg.Rounds)
		values, err := costs(ctx, cfg)
		if err != nil {
			return nil, err
		}
		for name, v := range values {
			found[name] = append(found[name], v)
		}
	}
	for name, list := range found {
		c.Values[name] = report.Median(list)
	}
	return c, nil
}

// costs does all trials once.
func costs(ctx context.Context, cfg Config) (map[string]float64, error) {
	half := cfg
	half.Players = max(64, cfg.Players/2)
	table := setup{masters: 1, nodes: 1, players: half.Players, perRoom: tableOf}
	with := func(change func(*setup)) setup {
		s := table
		change(&s)
		return s
	}
	var solo, plain, wide, spread, journal, feed, replica, cluster, hot trialOf
	for _, trial := range []struct {
		to    *trialOf
		setup setup
		both  bool
		rate  float64
	}{
		{&solo, with(func(s *setup) { s.players, s.perRoom = cfg.Players, 1 }), true, cfg.Rate},
		{&plain, with(func(s *setup) { s.players = cfg.Players }), true, cfg.Rate},
		{&wide, with(func(s *setup) { s.players, s.perRoom = cfg.Players, wideTable }), false, cfg.Rate},
		{&spread, with(func(s *setup) { s.nodes = manyNode }), false, cfg.Rate},
		{&journal, with(func(s *setup) { s.journal = longJournal }), false, cfg.Rate},
		{&feed, with(func(s *setup) { s.journal, s.feed = longJournal, longFeed }), false, cfg.Rate},
		{&replica, with(func(s *setup) { s.replicas = 1 }), false, cfg.Rate},
		{&cluster, with(func(s *setup) { s.cluster = true }), false, cfg.Rate},
		{&hot, with(func(s *setup) { s.nodes, s.players, s.unlimited = 2, 8*tableOf, true }), false, 1e6},
	} {
		var err error
		if *trial.to, err = run(ctx, cfg, trial.setup, trial.both, trial.rate); err != nil {
			return nil, fmt.Errorf("%v: %w", trial.setup, err)
		}
	}
	c := make(map[string]float64)
	set := func(name string, v float64) { c[name] = max(0, v) }

	nodes := func(r rates) float64 { return r.Nodes }
	redis := func(r rates) float64 { return r.Redis }
	others := float64(tableOf - 1)
	held := holding(manyNode, tableOf)

	set(size.NodeEvent, (wide.perAction(nodes)-plain.perAction(nodes))/(wideTable-tableOf))
	set(size.BusyRate, cfg.Rate)
	set(size.NodeFalls, plain.falls(nodes))
	set(size.RedisFalls, plain.falls(redis))
	set(size.NodeCommit, (spread.perAction(nodes)*math.Pow(manyNode, -c[size.NodeFalls])-plain.perAction(nodes))/(held-1))
	set(size.NodeAction, plain.perAction(nodes)-others*c[size.NodeEvent]-c[size.NodeCommit])
	set(size.NodeIdle, solo.alone.Nodes)
	set(size.NodeConnection, ((solo.connected.Nodes-solo.alone.Nodes)+(plain.connected.Nodes-plain.alone.Nodes))/2/float64(cfg.Players))

	p := float64(cfg.Players)
	set(size.NodeMemory, (solo.base.freed+plain.base.freed)/2)
	set(size.NodeMemoryAsIs, (solo.idle.resident+plain.idle.resident-solo.base.freed-plain.base.freed)/2/p)
	set(size.NodeMemoryConnection, (solo.idle.freed+plain.idle.freed-solo.base.freed-plain.base.freed)/2/p)
	copies := (solo.playing.freed - solo.base.freed - plain.playing.freed + plain.base.freed) / (p - p/tableOf)
	set(size.NodeMemoryRoom, copies)
	set(size.NodeMemoryMember, (plain.playing.freed-plain.base.freed)/p-c[size.NodeMemoryConnection]-c[size.NodeMemoryRoom]/tableOf)
	set(size.NodeGarbage, (solo.garbage()+plain.garbage())/2)
	set(size.KernelConnection, (solo.idle.kernel-solo.base.kernel+plain.idle.kernel-plain.base.kernel)/2/p/2) // both ends are here

	set(size.RedisCommit, plain.perAction(redis))
	set(size.RedisSubscriber, (spread.perAction(redis)-plain.perAction(redis))/(held-1))
	set(size.RedisJournal, journal.perAction(redis)-plain.perAction(redis))
	set(size.RedisFeed, feed.perAction(redis)-journal.perAction(redis))
	set(size.RedisReplica, replica.perAction(redis)-plain.perAction(redis))
	set(size.RedisCluster, cluster.perAction(redis)-plain.perAction(redis))
	set(size.RedisContended, hot.perAction(redis))
	set(size.RedisNode, (spread.alone.Redis-solo.alone.Redis)/(manyNode-1))
	set(size.RedisIdle, solo.alone.Redis-c[size.RedisNode])

	of := func(t trialOf) float64 { return (t.redisPlayed - t.redisBase) / float64(t.players) }
	set(size.RedisMemory, (solo.redisBase+plain.redisBase)/2)
	rooms := (of(solo) - of(plain)) / (1 - 1.0/tableOf)
	set(size.RedisMemorySubscriber, (of(spread)-of(plain))*tableOf/(held-1))
	set(size.RedisMemoryRoom, rooms-c[size.RedisMemorySubscriber])
	set(size.RedisMemoryMember, of(plain)-rooms/tableOf)
	set(size.RedisMemoryEntry, (journal.high.Growth-plain.high.Growth)/journal.high.Actions)
	set(size.RedisMemoryFeed, feed.high.Growth/feed.high.Actions-journal.high.Growth/journal.high.Actions)

	set(size.BytesPing, (plain.connected.ToClients+plain.connected.FromClients)/2/p)
	set(size.BytesAction, plain.perAction(func(r rates) float64 { return r.FromClients }))
	set(size.BytesReply, solo.perAction(func(r rates) float64 { return r.ToClients }))
	set(size.BytesEvent, (plain.perAction(func(r rates) float64 { return r.ToClients })-c[size.BytesReply])/others)
	set(size.BytesCommit, plain.perAction(func(r rates) float64 { return r.ToRedis }))
	from := func(r rates) float64 { return r.FromRedis }
	set(size.BytesMessage, (spread.perAction(from)-plain.perAction(from))/(held-1))
	set(size.BytesAnswer, plain.perAction(from)-c[size.BytesMessage])
	set(size.BytesNodeIdle, plain.alone.ToRedis+plain.alone.FromRedis)
	return c, nil
}

// holding returns on how many of n nodes there is somebody of k who connect to any of them.
func holding(n, k float64) float64 { return n * (1 - math.Pow(1-1/n, k)) }

// machine describes the machine in a line.
func machine(ctx context.Context) string {
	text := fmt.Sprintf("%d cores", runtime.NumCPU())
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				text += " (" + strings.TrimSpace(model) + ")"
				break
			}
		}
	}
	text += ", " + runtime.GOOS + ", " + runtime.Version()
	if s, err := launch.Start(ctx, launch.Plain()); err == nil {
		defer s.Close()
		m := masters{servers: []*launch.Server{s}}
		text += ", Redis " + m.version(ctx)
	}
	return text
}

// version returns of which revision this program is, if it knows.
func version() string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return ", " + s.Value[:12]
			}
		}
	}
	return ""
}
