package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"roomd/loadtest/chaos"
)

type chaosCmd struct {
	chaos.Config
	HistoryFile string `name:"history" placeholder:"FILE" help:"Write each call, return, event and fault as a line of JSON."`
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

// Validate is called by kong.
func (c *chaosCmd) Validate() error { return wrongFlag(c.Config.Validate()) }

// Run is called by kong.
func (c *chaosCmd) Run(ctx context.Context, std streams) error {
	cfg := c.Config
	if cfg.OtherVersion != "" {
		work, err := os.MkdirTemp("", "roomload-chaos-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if cfg.OtherProgram, err = programOf(ctx, work, cfg.OtherVersion, std.stderr); err != nil {
			return err
		}
	}
	if c.HistoryFile != "" {
		f, err := os.Create(c.HistoryFile)
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
