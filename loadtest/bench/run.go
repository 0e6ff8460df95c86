package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/redisserver"
)

// bench is one run.
type bench struct {
	redis    *redisserver.Redis
	rdb      *redis.Client // outside the measurements
	meter    *meter
	prefix   string // in every key of the run
	plan     plan
	duration time.Duration
	begun    int // measurements so far
	out, log io.Writer

	connections int    // of the workloads with processes of their own
	heapProfile string // a file; empty for none
}

// Run measures what cfg asks for and prints a table as soon as a workload is done.
// Report.Err says whether all lists were right. An error of Run says that the run was
// not possible or was stopped; see Config.Validate.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.HeapProfile != "" { // which a child writes much later
		if err := os.WriteFile(cfg.HeapProfile, nil, 0o644); err != nil {
			return nil, fmt.Errorf("heap-profile: %w", err)
		}
	}
	server, err := redisserver.Open(ctx, cfg.Redis)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	if cfg.CPUProfile != "" {
		file, err := os.Create(cfg.CPUProfile)
		if err != nil {
			return nil, fmt.Errorf("cpu-profile: %w", err)
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return nil, fmt.Errorf("cpu-profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	b := &bench{
		redis: server, rdb: server.NewClient(1), meter: newMeter(server),
		prefix: "bench-" + uuid.NewString()[:8] + "-",
		plan:   cfg.plan(), duration: cfg.Duration, out: cfg.Out, log: cfg.Log,
		connections: cmp.Or(cfg.Connections, defaultConnections),
		heapProfile: cfg.HeapProfile,
	}
	defer b.meter.close()
	defer b.rdb.Close()
	return b.run(ctx)
}

func (b *bench) run(ctx context.Context) (*Report, error) {
	report := newReport(b.redis, b.duration)
	if _, err := fmt.Fprintln(b.out, report.setup()); err != nil {
		return nil, err
	}
	for _, w := range b.plan.workloads {
		results := make(map[string]*Result)
		for _, c := range b.plan.of(w) {
			r, err := b.cell(ctx, w, c)
			if err != nil {
				return nil, err
			}
			results[c.name] = r
		}
		relate(results)
		report.Workloads[w.name] = results
		if err := tableOf(w, results).writeText(b.out); err != nil {
			return nil, err
		}
	}
	for _, s := range b.plan.special {
		if s.processes && b.redis.DB().IsEmbedded() {
			fmt.Fprintln(b.log, "each node has its embedded Redis in its own process, so its figures include those of Redis")
		}
		p, err := s.measure(ctx, b, report)
		if err != nil {
			return nil, err
		}
		if err := p.figures().writeText(b.out); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// special is a workload that compares no contenders.
type special struct {
	name, title string
	cells       int  // measurements
	processes   bool // it needs processes of its own, and runs only if it is named

	// measure sets its part of the report, and returns it. An error says that ctx has ended.
	measure func(context.Context, *bench, *Report) (part, error)
}

// part is what a special workload reports.
type part interface {
	figures() *figures
	problems() []string // lines
}

// specials are measured in this order.
var specials = []special{
	{webSocketName, "The whole path: WebSockets", 1, false, func(ctx context.Context, b *bench, r *Report) (_ part, err error) {
		r.WebSocket, err = b.measureWebSocket(ctx, webSocketLoad)
		return r.WebSocket, err
	}},
	{twoNodesName, "The whole path with two nodes", 1, false, func(ctx context.Context, b *bench, r *Report) (_ part, err error) {
		r.TwoNodes, err = b.measureWebSocket(ctx, twoNodesLoad)
		return r.TwoNodes, err
	}},
	{pacedName, "The whole path, 2,000 times a second", 1, false, func(ctx context.Context, b *bench, r *Report) (_ part, err error) {
		r.Paced, err = b.measureWebSocket(ctx, pacedLoad)
		return r.Paced, err
	}},
	{memoryName, "What a connection costs", len(memoryServers), true, func(ctx context.Context, b *bench, r *Report) (_ part, err error) {
		r.Memory, err = b.measureMemory(ctx)
		return r.Memory, err
	}},
}

// cell measures one contender in one workload. It returns an error if ctx has ended.
func (b *bench) cell(ctx context.Context, w workload, who contender) (*Result, error) {
	c := &cell{
		redis: b.redis, rdb: b.rdb, meter: b.meter, prefix: b.begin(w.name + ": " + who.name),
		who: who, load: w, duration: b.duration,
	}
	r := c.measure(ctx)
	failure, stopped := b.finish(ctx, c.prefix, nil)
	if stopped != nil {
		return nil, stopped
	}
	if failure != nil && r.Failure == "" {
		r.Failure = "remove the keys: " + failure.Error()
	}
	fmt.Fprintf(b.log, "%s actions/s, p99 %s ms\n", r.ActionsPerSec.Text("%.0f"), r.Latency.P99.Text("%.2f"))
	return r, nil
}

// begin logs the next measurement and returns the prefix of its names.
func (b *bench) begin(what string) (prefix string) {
	b.begun++
	fmt.Fprintf(b.log, "[%d/%d] %s … ", b.begun, b.plan.cells(), what)
	return fmt.Sprintf("%s%d-", b.prefix, b.begun)
}

// finish ends what begin began, and removes its keys. It returns why the measurement failed, and
// stopped if ctx has ended.
func (b *bench) finish(ctx context.Context, prefix string, err error) (failure, stopped error) {
	if removed := b.redis.Remove(ctx, prefix); err == nil {
		err = removed
	}
	if ctx.Err() != nil {
		fmt.Fprintln(b.log, "stopped")
		return nil, context.Cause(ctx)
	}
	return err, nil
}
