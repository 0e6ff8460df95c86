package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"roomd/loadtest/bench"
)

type benchCmd struct {
	Redis    string        `placeholder:"URL" help:"The Redis to measure on: redis://…, rediss://…, unix://… or embedded. Without it roomload starts a redis-server if one is installed, and otherwise the embedded one."`
	Only     []string      `placeholder:"NAME" help:"Contenders, separated by commas; see above."`
	Workload []string      `placeholder:"NAME" help:"Workloads, separated by commas; see above."`
	Duration time.Duration `default:"2s" help:"How long each measurement takes (${default})."`

	Connections int    `default:"10000" help:"How many clients connect in memory (${default})."`
	CPUProfile  string `name:"cpu-profile" placeholder:"FILE" help:"Write a profile of the processor time of nodes and clients, for go tool pprof."`
	HeapProfile string `placeholder:"FILE" help:"Write a profile of a node's heap, for go tool pprof: from memory with all clients in their rooms."`
	outputFlags
}

func (c *benchCmd) Help() string {
	return `Examples:

  roomload bench
  roomload bench --redis redis://127.0.0.1:6379 --only article,roomd --workload hot-room
  roomload bench --workload memory --connections 5000
  roomload bench --workload network --only article,roomd
  roomload bench --workload locks --only lockmgr,redislock
  roomload bench --json - | jq '.workloads["hot-room"].roomd.to_article'

Contenders: ` + strings.Join(bench.ContenderNames(), ", ") + `.

Workloads: ` + strings.Join(bench.WorkloadNames(), ", ") + `.
Without --workload all run, except ` + strings.Join(bench.NamedWorkloads(), ", ") + `.

Clients join and leave their rooms over and over. Then roomload compares every list with
what its users were told. It ends with 0 only if every list was right and no action failed.

network stands for all workloads with 0.25 ms each way between nodes and Redis.

locks stands for all workloads of locks: clients take a lock and give it back. They need a
redis-server. Each hold checks that nobody else has the lock.

memory says what a connection costs in resident memory, beside gorilla/websocket. It starts this
program again, for a node with roomd's defaults and for clients.

Compare a figure only with others of the same run, on a Redis that nobody else uses.
roomload uses and removes only keys with names of its own.`
}

func (c *benchCmd) config(std streams) bench.Config {
	return bench.Config{
		Redis: c.Redis, Duration: c.Duration, Only: c.Only, Workloads: c.Workload,
		Connections: c.Connections, CPUProfile: c.CPUProfile, HeapProfile: c.HeapProfile,
		Out: c.table(std), Log: std.stderr,
	}
}

// Validate is called by kong.
func (c *benchCmd) Validate() error {
	if c.Connections == 0 { // which is the default for the bench
		return wrongFlag(errors.New("connections is 0, it must be at least 1"))
	}
	return wrongFlag(c.config(streams{}).Validate())
}

// Run is called by kong.
func (c *benchCmd) Run(ctx context.Context, std streams) error {
	report, err := bench.Run(ctx, c.config(std))
	if err != nil {
		return err
	}
	if err := c.write(report, std.stdout); err != nil {
		return err
	}
	return report.Err()
}
