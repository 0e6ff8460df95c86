// Command bench compares lockmgr with other locks in Redis, on the same server and
// in the same run:
//
//	go run . [--redis URL] [--duration 3s] [--only NAME,…] [--workload NAME,…] [--json FILE]
//
// Without --redis it starts a redis-server of its own on a free port of the
// loopback interface and stops it at the end. Only there it empties the server
// between two measurements; elsewhere it keeps to keys that nobody else has, which
// expire.
//
// Each contender meets each workload in processes of its own, after a short
// warm-up. The columns of the tables:
//
//   - holds/s and how many times lockmgr's that is;
//   - how long an acquire waited: median, 99th percentile, maximum, and how many
//     times lockmgr's 99th percentile that is. The maximum knows of acquires that
//     were still waiting at the end, the percentiles do not;
//   - Jain's index of the goroutines' numbers of holds: 1 if all had the same, 1/n
//     if one had them all;
//   - commands that the server ran for a hold, those within scripts included, and
//     reads from sockets that it took, which come near to the round trips;
//   - processor time of the server for a hold.
//
// Each hold checks that nobody else in its process has the lock. Where goroutines
// compete, a second, shorter and unmeasured pass lets each hold leave a mark in
// Redis for its length and checks that no other mark is there. The program ends
// with 1 if a lock was held twice, or if a contender could not be measured.
//
// The allocations of an acquire with its release:
//
//	go test -run '^$' -bench .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const (
	maxWarmUp = 500 * time.Millisecond
	maxVerify = time.Second
)

// config is the command line.
type config struct {
	redis      string // URL; empty means a server of our own
	duration   time.Duration
	contenders []contender
	workloads  []workload
	json       string // file; empty means none
}

func main() {
	redis.SetLogger(&logging.VoidLogger{}) // what it says comes as errors too
	if isProcess(os.Args) {
		if err := serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench: process:", err)
			os.Exit(1)
		}
		return
	}
	cfg, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (cfg config, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.redis, "redis", "", "`URL` of a Redis; without it one is started")
	flags.DurationVar(&cfg.duration, "duration", 3*time.Second, "how long each measurement takes")
	flags.StringVar(&cfg.json, "json", "", "`file` for all that was measured")
	only := flags.String("only", "", "contenders, by comma: `names` out of "+names(contenders))
	chosen := flags.String("workload", "", "workloads, by comma: `names` out of "+names(workloads))
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if flags.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if cfg.duration <= 0 {
		return cfg, fmt.Errorf("--duration is %v, it must be more than zero", cfg.duration)
	}
	if cfg.contenders, err = choose(contenders, *only); err != nil {
		return cfg, fmt.Errorf("--only: %w", err)
	}
	if cfg.workloads, err = choose(workloads, *chosen); err != nil {
		return cfg, fmt.Errorf("--workload: %w", err)
	}
	return cfg, nil
}

func names[T fmt.Stringer](all []T) string {
	var list []string
	for _, one := range all {
		list = append(list, one.String())
	}
	return strings.Join(list, ", ")
}

// choose returns those of all that a list by comma names, or all if it is empty.
func choose[T fmt.Stringer](all []T, list string) (chosen []T, err error) {
	if list == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		at := slices.IndexFunc(all, func(one T) bool { return one.String() == name })
		if at < 0 {
			return nil, fmt.Errorf("%q is none of %s", name, names(all))
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// run measures what cfg asks for, and prints a table as soon as a workload is
// through.
func run(ctx context.Context, cfg config, stdout, stderr io.Writer) error {
	server, err := openServer(ctx, cfg.redis)
	if err != nil {
		return err
	}
	defer server.close()
	all := newReport(server, cfg.duration)
	total := len(cfg.workloads) * len(cfg.contenders)
	for _, load := range cfg.workloads {
		var results []result
		for _, who := range cfg.contenders {
			fmt.Fprintf(stderr, "[%d/%d] %s: %s … ", len(all.Results)+len(results)+1, total, load, who)
			r := measure(ctx, server, load, who, cfg.duration)
			if ctx.Err() != nil {
				fmt.Fprintln(stderr, "stopped")
				return context.Cause(ctx)
			}
			fmt.Fprintln(stderr, r)
			results = append(results, r)
		}
		all.Results = append(all.Results, results...)
		if err := printTable(stdout, load, results); err != nil {
			return err
		}
	}
	if cfg.json != "" {
		if err := all.write(cfg.json); err != nil {
			return err
		}
	}
	return all.verdict()
}

// measure lets one contender meet one workload.
func measure(ctx context.Context, s *server, load workload, who contender, duration time.Duration) result {
	c := load.cell(s.url, who)
	c.WarmUp, c.Duration = min(duration/10, maxWarmUp), duration
	t, used, err := c.measure(ctx, load.processes, s)
	r := newResult(load, who, duration, t, used, err)
	if err == nil && load.contended() {
		c.Verify, c.WarmUp, c.Duration = true, 0, min(duration, maxVerify)
		checked, _, err := c.measure(ctx, load.processes, s)
		r.verified(checked, err)
	}
	if err := s.clear(ctx); err != nil {
		r.fail(err)
	}
	return r
}
