package main

import (
	"context"
	"errors"

	"roomd/loadtest/lab"
)

// errNotAsListed ends the program after its report.
var errNotAsListed = errors.New("roomd failed, or another discipline did not fail as it is known to")

type labCmd struct {
	lab.Config `embed:""`
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

// Validate is called by kong.
func (c *labCmd) Validate() error { return wrongFlag(c.Config.Validate()) }

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
