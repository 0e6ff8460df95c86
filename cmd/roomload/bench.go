package main

import (
	"context"
	"strings"
	"time"

	"roomd/loadtest/bench"
)

type benchCmd struct {
	Redis    string        `placeholder:"URL" help:"What to measure on: redis://…, rediss://…, unix://… or embedded. Without it a redis-server is started for the run if one is installed, else the embedded one."`
	Only     []string      `placeholder:"NAME" help:"Contenders, by comma; see above."`
	Workload []string      `placeholder:"NAME" help:"Workloads, by comma; see above."`
	Duration time.Duration `default:"2s" help:"How long each measurement takes (${default})."`
	JSON     string        `name:"json" placeholder:"FILE" help:"Write the report as JSON; - is standard output, and the tables then go to standard error."`
	HTML     string        `name:"html" placeholder:"FILE" help:"Write the report with its plots as a web page."`
}

func (c *benchCmd) Help() string {
	return `Examples:

  roomload bench
  roomload bench --redis redis://127.0.0.1:6379 --only article,roomd --workload hot-room
  roomload bench --json - | jq '.workloads["hot-room"].roomd.to_article'

Contenders: ` + strings.Join(bench.ContenderNames(), ", ") + `.

Workloads: ` + strings.Join(bench.WorkloadNames(), ", ") + `.

Clients join and leave their rooms over and over. Afterwards every list is
compared with what its users were told. It ends with 0 only if every list was
right and no action failed. A figure is worth something beside those of the same
run only, and on a Redis that nobody else uses. In one that is given, all keys
have names of the run, and are taken away.`
}

// Run is called by kong.
func (c *benchCmd) Run(ctx context.Context, std streams) error {
	tables := std.stdout
	if c.JSON == "-" {
		tables = std.stderr
	}
	report, err := bench.Run(ctx, bench.Config{
		Redis: c.Redis, Duration: c.Duration, Only: c.Only, Workloads: c.Workload,
		Out: tables, Log: std.stderr,
	})
	if err != nil {
		return err
	}
	if err := writeReport(report, c.JSON, c.HTML, std.stdout); err != nil {
		return err
	}
	return report.Err()
}
