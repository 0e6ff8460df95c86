package main

import (
	"context"
	"fmt"

	"roomd/loadtest"
)

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

// Validate is called by kong.
func (c *runCmd) Validate() error { return wrongFlag(c.Config.Validate()) }

// Run is called by kong.
func (c *runCmd) Run(ctx context.Context, std streams) error {
	cfg := c.Config
	show, done := newStatus(std.stderr)
	cfg.Progress = func(p loadtest.Progress) {
		show(p.Elapsed, false, fmt.Sprintf("%3.0f s of %.0f s: %d actions, %.0f/s, %d violations",
			p.Elapsed.Seconds(), c.Duration.Seconds(),
			p.Actions, float64(p.Actions)/max(p.Elapsed.Seconds(), 0.001), p.Violations))
	}
	report, err := loadtest.Run(ctx, cfg)
	done()
	if err != nil {
		return err
	}
	return c.print(std, report.Consistent(), report)
}
