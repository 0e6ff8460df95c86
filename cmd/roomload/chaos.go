package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"roomd/loadtest/chaos"
)

type chaosCmd struct {
	Profile    string        `default:"standalone" help:"The Redis: standalone, sentinel or cluster (${default})."`
	Persist    string        `default:"always" help:"What it writes to its disk: none, everysec or always (${default})."`
	Replicas   int           `default:"-1" help:"How many replicas must have an action before it is acknowledged: 0 or 1 (1 with sentinel and cluster)."`
	KeyPrefix  string        `placeholder:"PREFIX:" help:"The nodes' --key-prefix (none by default)."`
	Nodes      int           `default:"3" help:"How many nodes to start (${default})."`
	Clients    int           `default:"30" help:"Players, with one connection each (${default})."`
	Rooms      int           `default:"6" help:"Rooms, which all players share (${default})."`
	Capacity   int           `default:"8" help:"Seats of a room; the administrator changes them (${default})."`
	Duration   time.Duration `default:"60s" help:"How long faults are injected (${default})."`
	Seed       uint64        `placeholder:"N" help:"Seed of the faults and the players. Without it roomload draws one, and prints it."`
	Faults     []string      `placeholder:"NAME,…" help:"Faults to inject; see above. Without it, all that may lose nothing with this profile."`
	Mix        []string      `default:"all" placeholder:"NAME,…" help:"What happens besides joins and leaves, as of run: names, all or none (${default})."`
	Recover    time.Duration `default:"30s" help:"How long it may take after a fault until each room and each node works (${default})."`
	UpdateFrom string        `placeholder:"REVISION" help:"Every second node begins as another version, and node-update has nodes become the other one: a revision such as main~3, or a roomd or roomload program."`
	History    string        `placeholder:"FILE" help:"Write each call, return, event and fault as a line of JSON."`
	Logs       string        `placeholder:"DIR" help:"Write there what nodes and servers log."`
	outputFlags
}

func (c *chaosCmd) Help() string {
	return `Examples:

  roomload chaos
  roomload chaos --profile cluster --duration 2m --html chaos.html
  roomload chaos --faults node-kill,net-swallow --seed 7 --history history.jsonl
  roomload chaos --update-from main~3
  roomload chaos --persist everysec --faults redis-power --duration 30s
  roomload chaos --duration 1h --clients 12 --rooms 4 --recover 10m --html hour.html

It starts servers of Redis, and nodes, as processes, and puts a network of its own between
clients, nodes and Redis. Players do all that rooms allow, while faults come by a schedule
that the seed makes. Each lasts for 2 to 6 s, some longer; then all heals, and each room and
each node has to work again before the next one comes.

Two checkers judge what the clients were told: the witness by the rooms' journals, porcupine
without them. What readers of the feed and the receiver of a webhook were told is compared with
the journals, too. From two minutes on a run says whether nodes or Redis need more and more.
It ends with 0 only if nothing is wrong: nothing acknowledged is lost but what
Redis may lose as it is set up, nothing happens twice, and everything happens in the order
of time. Faults that lose something by themselves have to be named.

Faults:

` + chaos.Describe()
}

func (c *chaosCmd) config() chaos.Config {
	replicas := c.Replicas
	if replicas < 0 {
		replicas = 1
		if c.Profile == chaos.Standalone {
			replicas = 0
		}
	}
	return chaos.Config{
		Profile: c.Profile, Persist: c.Persist, Replicas: replicas, KeyPrefix: c.KeyPrefix, Nodes: c.Nodes, Clients: c.Clients, Rooms: c.Rooms, Capacity: c.Capacity,
		Duration: c.Duration, Seed: c.Seed, Faults: c.Faults, Mix: mixOf(c.Mix), Recover: c.Recover, Logs: c.Logs, OtherVersion: c.UpdateFrom,
	}
}

// Validate is called by kong.
func (c *chaosCmd) Validate() error { return wrongFlag(c.config().Validate()) }

// Run is called by kong.
func (c *chaosCmd) Run(ctx context.Context, std streams) error {
	cfg := c.config()
	if c.UpdateFrom != "" {
		work, err := os.MkdirTemp("", "roomload-chaos-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if cfg.OtherProgram, err = programOf(ctx, work, c.UpdateFrom, std.stderr); err != nil {
			return err
		}
	}
	if c.History != "" {
		f, err := os.Create(c.History)
		if err != nil {
			return err
		}
		defer f.Close()
		cfg.History = f
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64N(1_000_000) + 1
	}
	show, done := newStatus(std.stderr)
	cfg.Progress = func(p chaos.Progress) { show(p.Elapsed, p.Changed, p.String()) }
	report, err := chaos.Run(ctx, cfg)
	done()
	if err != nil {
		return fmt.Errorf("seed %d: %w", cfg.Seed, err)
	}
	return c.print(std, report.Consistent(), report)
}
