package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"roomd/loadtest"
)

type runCmd struct {
	Target   []string      `placeholder:"ws://…" help:"A node that runs already, as ws://host:port/ws. Repeat it for several. Without it, nodes are started for the run."`
	Nodes    int           `default:"1" help:"How many nodes to start (${default})."`
	Redis    string        `default:"embedded" placeholder:"URL" help:"Where those nodes keep the rooms, and where the lists are read at the end: redis://… or embedded (${default}). With --target, the Redis of those nodes, if it can be reached."`
	Clients  int           `default:"200" help:"Players, a connection each (${default})."`
	Rooms    int           `default:"10" help:"Rooms that they share (${default})."`
	Capacity int           `default:"0" help:"Seats of a room; 0 sets no limit (${default}). With --target, what those nodes were told, to check it."`
	Duration time.Duration `default:"10s" help:"How long they play (${default})."`
	JSON     string        `name:"json" placeholder:"FILE" help:"Write the report as JSON; - is standard output, and the table then goes to standard error."`
	HTML     string        `name:"html" placeholder:"FILE" help:"Write the report with its plots as a web page."`
}

func (c *runCmd) Help() string {
	return `Examples:

  roomload run
  roomload run --nodes 3 --redis redis://127.0.0.1:6379 --clients 300 --rooms 5 --capacity 50
  roomload run --target ws://127.0.0.1:8080/ws --json - | jq .verdict

Checked in every reply and event, and at the end against Redis, every node and
what each player knows: no acknowledged join lost, no phantom, no duplicate,
never over capacity, no two users on one seat, versions without gaps.`
}

// Run is called by kong.
func (c *runCmd) Run(ctx context.Context, std streams) error {
	progress, done := newProgress(std.stderr, c.Duration)
	report, err := loadtest.Run(ctx, loadtest.Config{
		Targets: c.Target, Nodes: c.Nodes, Redis: c.Redis,
		Clients: c.Clients, Rooms: c.Rooms, Capacity: c.Capacity, Duration: c.Duration,
		Progress: progress,
	})
	done()
	if err != nil {
		return err
	}
	table := std.stdout
	if c.JSON == "-" {
		table = std.stderr
	}
	if err := report.WriteTable(table); err != nil {
		return err
	}
	if err := writeReport(report, c.JSON, c.HTML, std.stdout); err != nil {
		return err
	}
	if !report.Consistent() {
		return errInconsistent
	}
	return nil
}

// writeReport writes a report as JSON and as a page, each to the file of that name;
// see writeFile.
func writeReport(report interface{ WriteHTML(io.Writer) error }, jsonFile, htmlFile string, stdout io.Writer) error {
	if err := writeFile(jsonFile, stdout, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(report)
	}); err != nil {
		return fmt.Errorf("json: %w", err)
	}
	if err := writeFile(htmlFile, stdout, report.WriteHTML); err != nil {
		return fmt.Errorf("html: %w", err)
	}
	return nil
}

// writeFile writes to the named file, to stdout for -, or nothing for no name.
func writeFile(name string, stdout io.Writer, write func(io.Writer) error) error {
	switch name {
	case "":
		return nil
	case "-":
		return write(stdout)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
