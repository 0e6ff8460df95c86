package main

import (
	"context"
	"errors"
	"time"

	"roomd/loadtest/lab"
)

// errNotAsListed ends the program with 1 after its report has said why.
var errNotAsListed = errors.New("roomd failed, or another did not fail as it is known to")

type labCmd struct {
	Only     []string      `placeholder:"NAME" help:"Only these disciplines."`
	Faults   []string      `placeholder:"NAME" help:"Only these faults."`
	Redis    string        `placeholder:"URL" help:"The Redis to use: redis://… or embedded. Without it a redis-server is started if there is one, else the embedded Redis is used."`
	Duration time.Duration `default:"1s" help:"How long the callers of the heavy load go on, for each discipline (${default})."`
	Second   time.Duration `default:"100ms" help:"What a published second lasts, except under heavy load (${default}); 1s scales nothing."`
	Seed     uint64        `placeholder:"N" help:"Makes the random values of the callers. Without it a random one is taken, and printed."`
	JSON     string        `name:"json" placeholder:"FILE" help:"Write the report as JSON; - is standard output, and the table then goes to standard error."`
	HTML     string        `name:"html" placeholder:"FILE" help:"Write the report as a web page, with a timeline for each failure."`
}

func (c *labCmd) Help() string {
	return `Examples:

  roomload lab
  roomload lab --html lab.html
  roomload lab --only set-nx-lua,roomd --faults pause-write,crash-lock --second 1s

The ways to use a Redis lock that articles publish, by their exact steps, under
the faults that happen in life; and roomd among them. It ends with 0 if roomd
shows no anomaly and every other discipline at least those that are known of it.

` + lab.Describe()
}

// Run is called by kong.
func (c *labCmd) Run(ctx context.Context, std streams) error {
	table := std.stdout
	if c.JSON == "-" {
		table = std.stderr
	}
	show, done := newLabProgress(std.stderr)
	report, err := lab.Run(ctx, lab.Config{
		Redis: c.Redis, Only: c.Only, Faults: c.Faults,
		Duration: c.Duration, Second: c.Second, Seed: c.Seed, Progress: show,
	})
	done()
	if err != nil {
		return err
	}
	if err := report.WriteTable(table, isTerminal(table)); err != nil {
		return err
	}
	if err := writeReport(report, c.JSON, c.HTML, std.stdout); err != nil {
		return err
	}
	if !report.AsListed() {
		return errNotAsListed
	}
	return nil
}
