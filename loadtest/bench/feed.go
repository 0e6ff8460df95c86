package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/redisserver"
	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/pause"
)

const (
	feedName  = "feed"
	feedRooms = 50
	feedPace  = 50 * time.Millisecond // of the player of each room: together 1,000 commits/s

	feedKeeps   = 1_000_000
	feedJournal = 1000
	feedArrives = 30 * time.Second // how long the last commits may take to all readers
)

// feedTurns are measured by turns.
var feedTurns = []feedTurn{
	{name: "no feed", about: "a journal, and no feed"},
	{name: "nobody reads", keep: feedKeeps, about: "commits are copied into the feed, and nobody reads it"},
	{name: "three read", keep: feedKeeps, readers: true, about: "pages, server-sent events and a webhook besides"},
}

type feedTurn struct {
	name, about string
	keep        int
	readers     bool
}

// Feed is what the feed costs, and how late commits come to readers.
type Feed struct {
	Rounds  int                      `json:"rounds"`
	Turns   map[string]*FeedCost     `json:"turns"`
	Delay   map[string]tally.Latency `json:"delay_ms"` // by reader: from a commit's time in the journal to its arrival
	Failure string                   `json:"failure,omitempty"`

	delays map[string]*tally.Tally
	sums   map[string]*feedSum
}

// FeedCost is what an action costs.
type FeedCost struct {
	ActionsPerSec report.Figure `json:"actions_per_s"`
	Latency       tally.Latency `json:"latency_ms"`
	Commands      report.Figure `json:"commands_per_action"`
	RedisCPU      report.Figure `json:"redis_cpu_us_per_action"`
	OwnCPU        report.Figure `json:"own_cpu_us_per_action"` // node, players and readers
	RedisRatio    report.Figure `json:"redis_to_no_feed"`
	OwnRatio      report.Figure `json:"own_to_no_feed"`
}

// feedSum sums up the turns of a kind.
type feedSum struct {
	used    usage
	took    time.Duration
	actions *tally.Tally
}

// measureFeed measures the feed, on a Redis of its own, because the keys of the feed are those of all rooms.
func (b *bench) measureFeed(ctx context.Context) (*Feed, error) {
	f := &Feed{
		Rounds: b.rounds, Turns: make(map[string]*FeedCost), Delay: make(map[string]tally.Latency),
		delays: make(map[string]*tally.Tally), sums: make(map[string]*feedSum),
	}
	for _, name := range feedReaders {
		f.delays[name] = new(tally.Tally)
	}
	for _, t := range feedTurns {
		f.sums[t.name] = &feedSum{actions: new(tally.Tally)}
	}
	prefix := b.begin(feedName)
	for i := range max(b.rounds, 1) * len(feedTurns) {
		t := feedTurns[i%len(feedTurns)]
		err, stopped := b.finish(ctx, prefix, b.tryFeed(ctx, t, f))
		if stopped != nil {
			return nil, stopped
		}
		if err != nil {
			f.Failure = t.name + ": " + err.Error()
			break
		}
	}
	f.sum()
	fmt.Fprintf(b.log, "events p99 %s ms\n", f.Delay["events"].P99.Text("%.0f"))
	return f, nil
}

// tryFeed plays one turn.
func (b *bench) tryFeed(ctx context.Context, t feedTurn, f *Feed) (err error) {
	server, err := redisserver.Open(ctx, "")
	if err != nil {
		return err
	}
	defer server.Close()
	meter := newMeter(server)
	defer meter.close()
	h, err := openFeedHall(ctx, server, t, f.delays)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	sum := f.sums[t.name]
	if err := h.play(ctx, feedWarm, new(tally.Tally)); err != nil {
		return err
	}
	before, err := meter.read(ctx)
	if err != nil {
		return err
	}
	h.counts.Store(true)
	began := time.Now()
	if err := h.play(ctx, b.duration, sum.actions); err != nil {
		return err
	}
	sum.took += time.Since(began)
	after, err := meter.read(ctx)
	if err != nil {
		return err
	}
	h.counts.Store(false)
	sum.used = sum.used.plus(after.since(before))
	return h.arrive(ctx)
}

// play lets the player of each room commit at the pace for a while.
func (h *feedHall) play(ctx context.Context, duration time.Duration, t *tally.Tally) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var players sync.WaitGroup
	failed := make(chan error, len(h.players))
	for i, p := range h.players {
		players.Go(func() {
			if pause.For(ctx, feedPace*time.Duration(i)/feedRooms) != nil {
				return
			}
			tick := time.NewTicker(feedPace)
			defer tick.Stop()
			for ctx.Err() == nil {
				began := time.Now()
				if err := p.act(context.WithoutCancel(ctx)); err != nil {
					failed <- err
					return
				}
				t.Record(time.Since(began))
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	players.Wait()
	close(failed)
	return <-failed
}

// sum makes the figures of all turns.
func (f *Feed) sum() {
	for _, t := range feedTurns {
		s := f.sums[t.name]
		n := float64(s.actions.Recorded())
		f.Turns[t.name] = &FeedCost{
			ActionsPerSec: report.Per(n, s.took.Seconds()), Latency: s.actions.Latency(), Commands: report.Per(s.used.commands, n),
			RedisCPU: report.Per(s.used.micros, n), OwnCPU: report.Per(s.used.own, n),
		}
	}
	none := f.Turns[feedTurns[0].name]
	for _, c := range f.Turns {
		c.RedisRatio, c.OwnRatio = report.Per(float64(c.RedisCPU), float64(none.RedisCPU)), report.Per(float64(c.OwnCPU), float64(none.OwnCPU))
	}
	for name, d := range f.delays {
		f.Delay[name] = d.Latency()
	}
}

func (f *Feed) problems() []string {
	if f.Failure == "" {
		return nil
	}
	return []string{feedName + ": " + f.Failure}
}

func (f *Feed) figures() *figures {
	out := &figures{
		name:  feedName,
		about: fmt.Sprintf("one node, %d rooms with a commit each %v; %d rounds by turns", feedRooms, feedPace, f.Rounds),
		table: report.Table{Columns: []report.Column{
			{Head: ""}, {Head: "actions/s"}, {Head: "p50 ms", About: "of an action"}, {Head: "p99 ms"}, {Head: "commands", About: "of Redis, for an action"},
			{Head: "redis µs", About: "processor time of Redis for an action"}, {Head: "×no feed"},
			{Head: "own µs", About: "processor time of the node, the players and the readers, which are one process, for an action"}, {Head: "×no feed"},
		}},
	}
	for _, name := range feedReaders {
		if d, is := f.Delay[name]; is {
			out.facts.Rows = append(out.facts.Rows, report.Fact{Name: name, Text: fmt.Sprintf("p50 %s ms, p99 %s ms, max %s ms behind the commit", d.P50.Text("%.0f"), d.P99.Text("%.0f"), d.Max.Text("%.0f")),
				About: "From a commit's time in the journal to its arrival at the reader."})
		}
	}
	for _, t := range feedTurns {
		if c := f.Turns[t.name]; c != nil {
			out.table.Rows = append(out.table.Rows, report.Row{Cells: []string{t.name, c.ActionsPerSec.Text("%.0f"), c.Latency.P50.Text("%.2f"), c.Latency.P99.Text("%.2f"), c.Commands.Text("%.1f"),
				c.RedisCPU.Text("%.1f"), c.RedisRatio.Text("%.2f"), c.OwnCPU.Text("%.1f"), c.OwnRatio.Text("%.2f")}})
			out.table.Notes = append(out.table.Notes, t.name+": "+t.about)
		}
	}
	out.table.Notes = append(out.table.Notes, notes(feedName, f.problems())...)
	return out
}
