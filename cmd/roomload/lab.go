package main

import (
	"context"
	"errors"
	"time"

	"roomd/loadtest/lab"
)

// errNotAsListed ends the program after its report has said why.
var errNotAsListed = errors.New("roomd failed, or another discipline did not fail as it is known to")

type labCmd struct {
	Only     []string      `placeholder:"NAME" help:"Disciplines, separated by commas; see above."`
	Faults   []string      `placeholder:"NAME" help:"Faults, separated by commas; see above."`
	Redis    string        `placeholder:"URL" help:"The Redis to use: redis://… or embedded. Without it roomload starts a redis-server if one is installed, and otherwise the embedded one."`
	Duration time.Duration `default:"1s" help:"How long the heavy load lasts for each discipline (${default})."`
	Second   time.Duration `default:"100ms" help:"How long a published second lasts, except under heavy load, from 100ms to 1s (${default})."`
	outputFlags
}

func (c *labCmd) Help() string {
	return `Examples:

  roomload lab
  roomload lab --html lab.html
  roomload lab --only set-nx-lua,roomd --faults pause-write,crash-lock --second 1s

It runs the ways to use a Redis lock that articles publish, by their exact steps, under
the faults that happen in practice, and roomd among them. It ends with 0 only if roomd
shows no anomaly, and every other discipline shows at least those that are known of it.
The web page has every step of each failure.

` + lab.Describe()
}

func (c *labCmd) config() lab.Config {
	return lab.Config{Redis: c.Redis, Only: c.Only, Faults: c.Faults, Duration: c.Duration, Second: c.Second}
}

// Validate is called by kong.
func (c *labCmd) Validate() error { return wrongFlag(c.config().Validate()) }

// Run is called by kong.
func (c *labCmd) Run(ctx context.Context, std streams) error {
	cfg := c.config()
	show, done := newLabProgress(std.stderr)
	cfg.Progress = show
	report, err := lab.Run(ctx, cfg)
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
