package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"roomd/loadtest"
)

type runCmd struct {
	Target    []string      `placeholder:"ws://…" help:"A running node, as ws://host:port/ws. Repeat it for several. Players keep to its rate; with --rate off they act as fast as they can. For more than 1000 clients it needs --max-per-address off. Without a target roomload starts nodes for the run."`
	Secret    string        `name:"auth-secret-file" type:"path" placeholder:"FILE" help:"The secret of the targets, as of their --auth-secret-file: players get tokens that it signs."`
	Nodes     int           `default:"1" help:"How many nodes to start (${default})."`
	Redis     string        `default:"embedded" placeholder:"URL" help:"Where those nodes keep the rooms, and where roomload reads the lists at the end: redis://… or embedded (${default}). With --target, the Redis of those nodes, if roomload can reach it."`
	KeyPrefix string        `placeholder:"PREFIX:" help:"What the names of all keys in Redis begin with, as of the nodes' --key-prefix."`
	Clients   int           `default:"200" help:"Players, with one connection each (${default})."`
	Rooms     int           `default:"10" help:"Rooms, which all players share (${default})."`
	Capacity  int           `default:"0" help:"Seats of a room; 0 sets no limit (${default}). With --target, the capacity that those nodes have, to check it."`
	Duration  time.Duration `default:"10s" help:"How long the players play (${default})."`
	Mix       []string      `default:"all" placeholder:"NAME,…" help:"What happens besides joins and leaves, separated by commas: ready, data, private, timer, say, host, match, configure, kick, close, seats, deal, party, move; all or none (${default}). What an administrator does, from configure on, needs --redis, also with --target."`
	outputFlags
}

func (c *runCmd) Help() string {
	return `Examples:

  roomload run
  roomload run --nodes 3 --redis redis://127.0.0.1:6379 --clients 300 --rooms 5 --capacity 50
  roomload run --target ws://127.0.0.1:8080/ws --json - | jq .verdict

It is what chaos is, without faults, and as fast as the nodes are. Two checkers judge every reply
and event, Redis and every node's answer: by the rooms' journals, and without them. No acknowledged
action is lost, none is a phantom or a duplicate, no room over capacity, no two users on one
seat, no version missing. Where a target keeps no journal, or --redis does not lead to it, those who
watch the rooms stand for it. It ends with 0 only if nothing is wrong, and all could be decided.`
}

func (c *runCmd) config() loadtest.Config {
	return loadtest.Config{
		Targets: c.Target, Nodes: c.Nodes, Redis: c.Redis, KeyPrefix: c.KeyPrefix,
		Clients: c.Clients, Rooms: c.Rooms, Capacity: c.Capacity, Duration: c.Duration,
		Mix: mixOf(c.Mix), SecretFile: c.Secret,
	}
}

// mixOf returns the names that all and none stand for.
func mixOf(names []string) []string {
	switch {
	case slices.Equal(names, []string{"all"}):
		return loadtest.MixNames
	case slices.Equal(names, []string{"none"}):
		return nil
	}
	return names
}

// Validate is called by kong.
func (c *runCmd) Validate() error { return wrongFlag(c.config().Validate()) }

// Run is called by kong.
func (c *runCmd) Run(ctx context.Context, std streams) error {
	cfg := c.config()
	show, done := newStatus(std.stderr)
	cfg.Progress = func(p loadtest.Progress) {
		show(p.Elapsed, false, fmt.Sprintf("%3.0f s of %.0f s: %d actions, %.0f/s, %d violations", p.Elapsed.Seconds(), c.Duration.Seconds(),
			p.Actions, float64(p.Actions)/max(p.Elapsed.Seconds(), 0.001), p.Violations))
	}
	report, err := loadtest.Run(ctx, cfg)
	done()
	if err != nil {
		return err
	}
	return c.print(std, report.Consistent(), report)
}
