package main

import (
	"context"
	"strings"
	"time"

	"roomd/loadtest/bench"
)

type benchCmd struct {
	Redis    string        `placeholder:"URL" help:"The Redis to measure on: redis://…, rediss://…, unix://… or embedded. Without it roomload starts a redis-server if one is installed, and otherwise the embedded one."`
	Only     []string      `placeholder:"NAME" help:"Contenders, separated by commas; see above."`
	Workload []string      `placeholder:"NAME" help:"Workloads, separated by commas; see above."`
	Duration time.Duration `default:"2s" help:"How long each measurement takes (${default})."`
	outputFlags
}

func (c *benchCmd) Help() string {
	return `Examples:

  roomload bench
  roomload bench --redis redis://127.0.0.1:6379 --only article,roomd --workload hot-room
  roomload bench --json - | jq '.workloads["hot-room"].roomd.to_article'

Contenders: ` + strings.Join(bench.ContenderNames(), ", ") + `.

Workloads: ` + strings.Join(bench.WorkloadNames(), ", ") + `.

Clients join and leave their rooms over and over. Then roomload compares every list with
what its users were told. It ends with 0 only if every list was right and no action failed.
Compare a figure only with others of the same run, on a Redis that nobody else uses.
roomload uses and removes only keys with names of its own.`
}

func (c *benchCmd) config(std streams) bench.Config {
	return bench.Config{
		Redis: c.Redis, Duration: c.Duration, Only: c.Only, Workloads: c.Workload,
		Out: c.table(std), Log: std.stderr,
	}
}

// Validate is called by kong.
func (c *benchCmd) Validate() error { return wrongFlag(c.config(streams{}).Validate()) }

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
