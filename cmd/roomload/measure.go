package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"roomd/loadtest"
	"roomd/loadtest/bench"
	"roomd/loadtest/chaos"
	"roomd/loadtest/lab"
	"roomd/loadtest/report"
)

type benchCmd struct {
	bench.Config
	outputFlags
}

func (c *benchCmd) Help() string {
	return `Examples:

  roomload bench
  roomload bench --redis redis://127.0.0.1:6379 --only article,roomd --workload hot-room
  roomload bench --workload memory --connections 5000
  roomload bench --workload network --only article,sadd,lua+ap,roomd
  roomload bench --workload locks --only lockmgr,redislock
  roomload bench --json - | jq '.workloads["hot-room"].roomd.to.article'

Clients act over and over, one action at a time. Then roomload compares every list with what its users were told: who joined last must
be in it (or is lost), once (or is a duplicate), and nobody else (a phantom). Each hold of a lock checks that nobody else has it. roomload
ends with 0 only if all that was right and no action failed.

Compare a figure only with others of the same run, on a machine and a Redis that do nothing else: figures and ratios move by a
quarter from run to run, more with a short --duration. roomload uses and removes only keys with names of its own. Below its first table each figure is explained.

Contenders:

` + facts(bench.Contenders()) + `
Workloads, of which those of a group run only if they or the group are named:

` + facts(bench.Workloads()) + `
network and locks need a redis-server. For network and memory roomload starts itself again: the first for the delay, whose cost is
not that of the nodes, the other for a node whose memory is not that of the clients. memory needs as many open files as there are
connections, and a fifth more (ulimit -n).`
}

// facts formats each fact as a line that kong does not wrap.
func facts(list []report.Fact) string {
	return "  " + strings.TrimSpace(strings.ReplaceAll((&report.Facts{Rows: list}).Text(0), "\n", "\n  ")) + "\n"
}

// Run is called by kong.
func (c *benchCmd) Run(ctx context.Context, std streams) error {
	cfg := c.Config
	cfg.Out, cfg.Log = c.table(std), std.stderr
	report, err := bench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	if err := c.write(report, std.stdout); err != nil {
		return err
	}
	return report.Err()
}

// errNotAsListed ends the program after its report.
var errNotAsListed = errors.New("roomd failed, or another discipline did not fail as it is known to")

type labCmd struct {
	lab.Config `embed:""`
	outputFlags
}

func (c *labCmd) Help() string {
	ways, troubles := lab.Describe()
	return `Examples:

  roomload lab
  roomload lab --html lab.html
  roomload lab --only set-nx-lua,roomd --faults pause-write,crash-lock --second 1s

It runs the ways to use a Redis lock that articles publish, by their exact steps, under
the faults that happen in practice, and roomd among them. It ends with 0 only if roomd
shows no anomaly, and every other discipline shows at least those that are known of it.
The web page has every step of each failure.

Disciplines:
` + facts(ways) + `
Faults:
` + facts(troubles)
}

// Run is called by kong.
func (c *labCmd) Run(ctx context.Context, std streams) error {
	show, done := newLabProgress(std.stderr)
	c.Progress = show
	report, err := lab.Run(ctx, c.Config)
	done()
	if err != nil {
		return err
	}
	table := c.table(std)
	if err := report.WriteTable(table, isTerminal(table)); err != nil {
		return err
	}
	if err := c.write(report, std.stdout); err != nil {
		return err
	}
	if !report.AsListed() {
		return errNotAsListed
	}
	return nil
}

type runCmd struct {
	loadtest.Config
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

// Run is called by kong.
func (c *runCmd) Run(ctx context.Context, std streams) error {
	cfg := c.Config
	var done func()
	cfg.Progress, done = newStatus(std.stderr)
	report, err := loadtest.Run(ctx, cfg)
	done()
	if err != nil {
		return err
	}
	return c.print(std, report.Consistent(), report)
}

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

` + facts(chaos.Describe())
}

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
	var done func()
	cfg.Progress, done = newStatus(std.stderr)
	report, err := chaos.Run(ctx, cfg)
	done()
	if err != nil {
		return fmt.Errorf("seed %d: %w", cfg.Seed, err)
	}
	return c.print(std, report.Consistent(), report)
}
