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
	"path/filepath"
	"slices"
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
		return fmt.Errorf("--rounds is %d, it must be at least 1", c.Rounds)
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
				fmt.Fprintf(std.stderr, "[%d/%d] %s, %s\n", runs, 2*c.Rounds*len(c.Workload), workload,
					[]string{"before", "after"}[which])
				switch err := c.measure(ctx, programs[which], workload, rounds[i][which]); {
				case err == nil:
				case unknown == nil && isWrongUse(err): // the program lacks this workload or contender
					unknown = err
				default:
					return err
				}
			}
		}
	}
	return printComparison(std.stdout, c.Workload, rounds)
}

// isWrongUse reports whether a program ended because it does not know one of its arguments.
func isWrongUse(err error) bool {
	exit, ended := errors.AsType[*exec.ExitError](err)
	return ended && exit.ExitCode() == exitWrongUse
}

// measure runs one workload of a program's bench, and adds its results.
func (c *compareCmd) measure(ctx context.Context, program, workload string, results map[string]*bench.Result) error {
	cmd := exec.CommandContext(ctx, program, "bench", "--json", "-", "--only", c.Only, "--workload", workload,
		"--duration", c.Duration.String())
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(problems.Bytes()))
	}
	var r bench.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return fmt.Errorf("%s: its report: %w", program, err)
	}
	for name, of := range r.Workloads {
		results[name] = of[c.Only]
	}
	return nil
}

// printComparison prints the medians of the rounds, and the meanings of the columns.
func printComparison(out io.Writer, order []string, rounds [][2]map[string]*bench.Result) error {
	all := maps.Clone(rounds[0][0])
	maps.Copy(all, rounds[0][1])
	known := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(known, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	t := report.Table{Columns: []report.Column{
		{Head: "workload"}, {Head: "actions/s", About: "before and after: the medians of the rounds, as all figures"},
		{Head: "ratio", About: "after to before within a round; more is better"},
		{Head: "of the rounds", About: "the least and the greatest of these ratios: ratio counts if 1.00 is not between them"},
		{Head: "p50 ms", About: "half of the actions took at most so long"},
		{Head: "commands", About: "of Redis for an action, including those in scripts"},
		{Head: "allocations", About: "of nodes and clients for an action"},
	}}
	for _, name := range known {
		var figures [4][2][]report.Figure
		var ratios []report.Figure
		for _, round := range rounds {
			if round[0][name] == nil || round[1][name] == nil {
				continue
			}
			for i := range round {
				r := round[i][name]
				for f, x := range []report.Figure{r.ActionsPerSec, r.Latency.P50, r.Commands, r.Allocs} {
					figures[f][i] = append(figures[f][i], x)
				}
			}
			ratios = append(ratios, report.Per(float64(round[1][name].ActionsPerSec),
				float64(round[0][name].ActionsPerSec)))
		}
		if len(ratios) == 0 {
			t.Notes = append(t.Notes, "only one of them has "+name)
			continue
		}
		change := func(f int, format string) string {
			return report.Median(figures[f][0]).Text(format) + " → " + report.Median(figures[f][1]).Text(format)
		}
		t.Rows = append(t.Rows, report.Row{Cells: []string{
			name, change(0, "%.0f"), report.Median(ratios).Text("%.2f"),
			fmt.Sprintf("%.2f–%.2f", slices.Min(ratios), slices.Max(ratios)),
			change(1, "%.2f"), change(2, "%.2f"), change(3, "%.1f"),
		}})
	}
	_, err := fmt.Fprint(out, t.Text(), t.News(make(map[string]bool)))
	return err
}

// programOf returns the path of a roomload program. name is a path, or a revision, which programOf builds; ""
// means this program.
func programOf(ctx context.Context, work, name string, log io.Writer) (string, error) {
	if name == "" {
		return os.Executable()
	}
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return filepath.Abs(name)
	}
	tree, err := os.MkdirTemp(work, "")
	if err != nil {
		return "", err
	}
	fmt.Fprintln(log, "building", name)
	archive := filepath.Join(tree, "revision.tar")
	program := filepath.Join(tree, "roomload.exe")
	for _, args := range [][]string{
		{"git", "-C", ".", "archive", "-o", archive, name + ":./"},
		{"tar", "-xf", archive, "-C", tree},
		{"go", "build", "-C", tree, "-o", program, "./cmd/roomload"},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s is no program, and cannot be built as a revision of the repository: %s: %w: %s",
				name, args[0], err, bytes.TrimSpace(out))
		}
	}
	return program, nil
}
