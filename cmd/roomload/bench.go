package main

import (
	"context"
	"errors"
	"strings"

	"roomd/loadtest/bench"
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
	var b strings.Builder
	_ = (&report.Facts{Rows: list}).WriteText(&b, 0) // writing to memory does not fail
	return "  " + strings.TrimSpace(strings.ReplaceAll(b.String(), "\n", "\n  ")) + "\n"
}

// Validate is called by kong.
func (c *benchCmd) Validate() error {
	if c.Connections == 0 { // the bench's own default
		return wrongFlag(errors.New("connections is 0, it must be at least 1"))
	}
	return wrongFlag(c.Config.Validate())
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
