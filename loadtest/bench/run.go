package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/redisserver"
)

const (
	cleanTimeout = time.Minute
	cleanChunk   = 1000 // keys that Redis looks at or takes away at a time
)

// bench is one run.
type bench struct {
	redis    *redisserver.Redis
	rdb      *redis.Client // for what is not measured
	meter    *meter
	prefix   string // in every key of the run
	plan     plan
	duration time.Duration
	done     int // measurements
	out, log io.Writer
}

// Run measures what cfg asks for and prints a table as soon as a workload is
// through. The report's Err says whether all lists were right; an error of Run
// says that the run could not be made or was stopped, and names the field of cfg
// if that is why.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	p, err := cfg.plan()
	if err != nil {
		return nil, err
	}
	server, err := redisserver.Open(ctx, cfg.Redis)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	b := &bench{
		redis: server, rdb: server.NewClient(1), meter: newMeter(server),
		prefix: "bench-" + uuid.NewString()[:8] + "-",
		plan:   p, duration: cfg.Duration, out: cfg.Out, log: cfg.Log,
	}
	defer b.meter.close()
	defer b.rdb.Close()
	return b.run(ctx)
}

func (b *bench) run(ctx context.Context) (*Report, error) {
	report := newReport(b.redis, b.duration)
	if err := report.writeHead(b.out); err != nil {
		return nil, err
	}
	for _, w := range b.plan.workloads {
		results := make(map[string]*Result)
		for _, c := range b.plan.contenders {
			r, err := b.cell(ctx, w, c)
			if err != nil {
				return nil, err
			}
			results[c.name] = r
		}
		relate(results)
		report.Workloads[w.name] = results
		if err := writeTable(b.out, w, results); err != nil {
			return nil, err
		}
	}
	if b.plan.webSocket {
		var err error
		if report.WebSocket, err = b.wholePath(ctx, webSocketLoad); err != nil {
			return nil, err
		}
		if err := report.WebSocket.writeTable(b.out); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// cell measures one contender in one workload. It fails if ctx has ended.
func (b *bench) cell(ctx context.Context, w workload, who contender) (*Result, error) {
	c := &cell{
		redis: b.redis, rdb: b.rdb, meter: b.meter, prefix: b.begin(w.name + ": " + who.name),
		who: who, load: w, duration: b.duration,
	}
	r := c.measure(ctx)
	err := b.clean(ctx, c.prefix)
	if ctx.Err() != nil {
		fmt.Fprintln(b.log, "stopped")
		return nil, context.Cause(ctx)
	}
	if err != nil && r.Failure == "" {
		r.Failure = "take the keys away: " + err.Error()
	}
	fmt.Fprintf(b.log, "%s actions/s, p99 %s ms\n", r.ActionsPerSec.Text("%.0f"), r.Latency.P99.Text("%.2f"))
	return r, nil
}

// begin says what is measured next and returns the prefix of its names.
func (b *bench) begin(what string) (prefix string) {
	b.done++
	fmt.Fprintf(b.log, "[%d/%d] %s … ", b.done, b.plan.cells(), what)
	return fmt.Sprintf("%s%d-", b.prefix, b.done)
}

// clean takes the keys away that have the prefix in their names, also when ctx
// has ended.
func (b *bench) clean(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	for cursor := uint64(0); ; {
		keys, next, err := b.rdb.Scan(ctx, cursor, "*"+prefix+"*", cleanChunk).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := b.rdb.Unlink(ctx, keys...).Err(); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return b.forget(ctx, prefix)
		}
	}
}

// forget takes the nodes with the prefix out of the list of those that live.
func (b *bench) forget(ctx context.Context, prefix string) error {
	nodes, err := b.rdb.ZRange(ctx, "Nodes", 0, -1).Result()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if strings.Contains(node, prefix) {
			if err := b.rdb.ZRem(ctx, "Nodes", node).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
