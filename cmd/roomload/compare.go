package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"text/tabwriter"
	"time"

	"roomd/loadtest/bench"
	"roomd/loadtest/report"
)

type compareCmd struct {
	Before   string        `arg:"" help:"The revision to compare with, such as main~3, or a roomload program that was built from it."`
	After    string        `arg:"" optional:"" help:"The other one. Without it this program."`
	Rounds   int           `default:"4" help:"How often each is measured (${default})."`
	Workload []string      `placeholder:"NAME" default:"lone,hot-room,1000-rooms-128,1000-rooms-2000,four-nodes-one-room,four-nodes-16-rooms,members-10,websocket,websocket-two-nodes,websocket-paced" help:"Workloads of bench, separated by commas (${default})."`
	Only     string        `default:"roomd" help:"The contender that is compared (${default})."`
	Duration time.Duration `default:"700ms" help:"How long each measurement takes (${default})."`
}

func (c *compareCmd) Help() string {
	return `Examples:

  go run ./cmd/roomload compare main~3
  go run ./cmd/roomload compare main~3 --workload lone,hot-room --rounds 8

Both are measured by turns, since the speed of a machine changes from minute to minute: each workload
with one right after the other, and in the next round in the other order. Commands and allocations per action
hardly depend on the machine. Below the table each figure is explained.

Revisions are built with the go command, from the repository that it is run in.`
}

// Validate is called by kong.
func (c *compareCmd) Validate() error {
	if c.Rounds < 1 {
		return wrongFlag(fmt.Errorf("rounds is %d, it must be at least 1", c.Rounds))
	}
	return nil
}

// Run is called by kong.
func (c *compareCmd) Run(ctx context.Context, std streams) (err error) {
	work, err := os.MkdirTemp("", "roomload-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var programs [2]string
	if programs[0], err = programOf(ctx, work, c.Before, std.stderr); err != nil {
		return err
	}
	if programs[1], err = programOf(ctx, work, c.After, std.stderr); err != nil {
		return err
	}
	rounds := make([][2]map[string]*bench.Result, c.Rounds)
	runs := 0
	for i := range rounds {
		rounds[i] = [2]map[string]*bench.Result{{}, {}}
		for _, workload := range c.Workload {
			var unknown error
			for turn := range 2 {
				which := (turn + i) % 2
				runs++
				fmt.Fprintf(std.stderr, "[%d/%d] %s, %s\n", runs, 2*c.Rounds*len(c.Workload), workload, []string{"before", "after"}[which])
				switch err := c.measure(ctx, programs[which], workload, rounds[i][which]); {
				case err == nil:
				case unknown == nil && isWrongUse(err): // it has no such workload, or no such contender
					unknown = err
				default:
					return err
				}
			}
		}
	}
	return printComparison(std.stdout, c.Workload, rounds)
}

// isWrongUse reports whether a program has ended because it does not know what it was asked for.
func isWrongUse(err error) bool {
	exit, ended := errors.AsType[*exec.ExitError](err)
	return ended && exit.ExitCode() == exitWrongUse
}

// measure runs a workload of a program's bench once, and adds its results.
func (c *compareCmd) measure(ctx context.Context, program, workload string, results map[string]*bench.Result) error {
	cmd := exec.CommandContext(ctx, program, "bench", "--json", "-", "--only", c.Only, "--workload", workload, "--duration", c.Duration.String())
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(problems.Bytes()))
	}
	r := struct { // programs of before report the workloads with WebSockets apart
		bench.Report
		WebSocket *bench.Result `json:"websocket"`
		TwoNodes  *bench.Result `json:"websocket_two_nodes"`
		Paced     *bench.Result `json:"websocket_paced"`
	}{}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return fmt.Errorf("%s: its report: %w", program, err)
	}
	for name, of := range r.Workloads {
		results[name] = of[c.Only]
	}
	for name, of := range map[string]*bench.Result{"websocket": r.WebSocket, "websocket-two-nodes": r.TwoNodes, "websocket-paced": r.Paced} {
		if of != nil {
			results[name] = of
		}
	}
	return nil
}

func printComparison(out io.Writer, order []string, rounds [][2]map[string]*bench.Result) error {
	all := maps.Clone(rounds[0][0])
	maps.Copy(all, rounds[0][1])
	known := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(known, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "workload\tbefore/s\tafter/s\tratio\tof the rounds\tp50 ms\tcommands\tallocations")
	for _, name := range known {
		var rates, p50, commands, allocs [2][]report.Figure
		var ratios []report.Figure
		for _, round := range rounds {
			if round[0][name] == nil || round[1][name] == nil {
				continue
			}
			for i, results := range round {
				rates[i] = append(rates[i], results[name].ActionsPerSec)
				p50[i] = append(p50[i], results[name].Latency.P50)
				commands[i] = append(commands[i], results[name].Commands)
				allocs[i] = append(allocs[i], results[name].Allocs)
			}
			ratios = append(ratios, report.Per(float64(round[1][name].ActionsPerSec), float64(round[0][name].ActionsPerSec)))
		}
		if len(ratios) == 0 {
			fmt.Fprintf(table, "%s\tonly one of them has it\n", name)
			continue
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.2f\t%.2f–%.2f\t%.2f → %.2f\t%.2f → %.2f\t%.1f → %.1f\n", name, report.Median(rates[0]), report.Median(rates[1]), report.Median(ratios),
			slices.Min(ratios), slices.Max(ratios), report.Median(p50[0]), report.Median(p50[1]), report.Median(commands[0]), report.Median(commands[1]), report.Median(allocs[0]), report.Median(allocs[1]))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, `
before/s, after/s  actions per second: the medians of the rounds, as all figures
ratio              after to before within a round; more is better
of the rounds      the least and the greatest of these ratios: ratio counts if 1.00 is not between them
p50 ms             half of the actions took at most so long
commands           of Redis for an action, including those in scripts
allocations        of nodes and clients for an action
`)
	return err
}
