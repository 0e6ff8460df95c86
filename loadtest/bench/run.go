// Package bench measures roomd and other ways to keep the lists of rooms, or to acquire a lock, on one Redis
// and in one run, and checks the lists of each.
//
// Start with [Run]. [Contenders] and [Workloads] describe the comparison. Contenders other than roomd do less than
// roomd, and show the limits of Redis. Clients act repeatedly, one action at a time, after a warm-up. The columns of
// the tables explain the figures. Latency includes the actions under way at the end, so that a client that starves
// counts. The embedded Redis does not report its processor time, and its allocations count as the clients'.
//
// Each node has as many connections to Redis as clients, up to 512. In a workload with several nodes, each is a
// coordinator or a client of its own in this process, with its share of each room's clients.
//
// After each measurement the bench reads every room from Redis. A user whose last join was acknowledged must be
// there (otherwise lost), once (otherwise duplicate), and nobody else may be there (phantom). A client whose
// last action failed may be there or not.
//
// Lock contenders have a TTL of 3 s and, if they poll, do so every 5 ms. Each hold checks that nobody else has
// the lock. In a second, shorter pass, which is not measured, each hold lasts for a round trip.
//
// Two things have processes of their own, which [Main] runs: a server whose memory is measured, and a network
// between nodes and Redis. Everything else is in this process.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/internal/process"
	"roomd/loadtest/internal/scratch"
	"roomd/loadtest/report"
)

// Config says what to measure. Each field with a help text is a flag of roomload; the text gives its meaning
// and default. Out, Log, Duration and Connections are required.
type Config struct {
	Redis     string        `placeholder:"URL" help:"The Redis to measure on: redis://…, rediss://…, unix://… or embedded. Without it roomload starts a redis-server if one is installed, and otherwise the embedded one."`
	Only      []string      `placeholder:"NAME" help:"Contenders, separated by commas; without it all."`
	Workloads []string      `name:"workload" placeholder:"NAME" help:"Workloads and groups, separated by commas; without it all that are in no group."`
	Duration  time.Duration `default:"2s" help:"How long each measurement takes (${default})."` // without its warm-up

	// With a low limit on open files there are fewer Connections, and Log says so.
	Connections int    `default:"10000" help:"How many clients connect in memory (${default})."`
	CPUProfile  string `name:"cpu-profile" placeholder:"FILE" help:"Write a profile of the processor time of nodes and clients, for go tool pprof."`
	HeapProfile string `placeholder:"FILE" help:"Write a profile of a node's heap, for go tool pprof: from memory-room with all clients in their rooms."`

	Out io.Writer `kong:"-"` // receives a table after each workload
	Log io.Writer `kong:"-"` // receives a line for each measurement
}

// Contenders returns the names and descriptions of the contenders.
func Contenders() (list []report.Fact) {
	for _, c := range contenders {
		list = append(list, report.Fact{Name: c.name, Text: c.about})
	}
	return list
}

// Workloads returns the names and descriptions of the workloads, with each group before its workloads.
func Workloads() (list []report.Fact) {
	of := func(group string) {
		for _, w := range workloads {
			if w.group == group {
				list = append(list, report.Fact{Name: w.name, Text: w.about})
			}
		}
	}
	of("")
	for _, group := range groups {
		list = append(list, group)
		of(group.Name)
	}
	return list
}

// Validate returns an error if a value cannot be used. The error names the flag and its value.
func (c Config) Validate() error {
	if c.Duration <= 0 {
		return fmt.Errorf("--duration is %v, it must be more than zero", c.Duration)
	}
	if c.Connections < 1 {
		return fmt.Errorf("--connections is %d, it must be at least 1", c.Connections)
	}
	return cmp.Or(report.CheckNames("only", c.Only, report.Names(Contenders())),
		report.CheckNames("workload", c.Workloads, report.Names(Workloads())),
		scratch.Validate(c.Redis))
}

// cells returns the measurements of a valid Config in order. connections is the number of clients in workloads of
// memory.
func (c Config) cells(connections int) (list []cell) {
	for _, w := range workloads {
		if !slices.Contains(c.Workloads, w.name) && !slices.Contains(c.Workloads, w.group) &&
			(len(c.Workloads) > 0 || w.group != "") {
			continue
		}
		if w.kind == ofMemory {
			w.clients, w.rooms = connections, max(1, connections/roomSize)
		}
		for _, who := range contenders {
			if who.competes(w.kind) && (len(c.Only) == 0 || slices.Contains(c.Only, who.name)) {
				list = append(list, cell{load: w, who: who})
			}
		}
	}
	return list
}

// bench is one run.
type bench struct {
	redis       *scratch.Redis
	rdb         *redis.Client // for use outside the measurements, and for usage
	prefix      string        // part of every key of the run
	duration    time.Duration
	heapProfile string // name of a file, or ""
	out, log    io.Writer
}

// Run does the measurements of cfg and prints a table after each workload. Report.Err says whether all lists
// were right. An error of Run says that the run was impossible or was stopped; see Config.Validate.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.HeapProfile != "" { // fail now, because a child writes it much later
		if err := os.WriteFile(cfg.HeapProfile, nil, 0o644); err != nil {
			return nil, fmt.Errorf("heap-profile: %w", err)
		}
	}
	server, err := scratch.Open(ctx, cfg.Redis)
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
	b := newBench(server, cfg)
	defer b.close()
	connections := affordable(cfg.Connections, process.MaxFiles())
	cells := cfg.cells(connections)
	if slices.ContainsFunc(cells, func(c cell) bool { return c.load.kind == ofMemory }) {
		if connections < cfg.Connections {
			fmt.Fprintf(b.log, "the limit of %d open files (ulimit -n) allows %d connections instead of %d\n",
				process.MaxFiles(), connections, cfg.Connections)
		}
		if b.redis.IsEmbedded() {
			fmt.Fprintln(b.log, "a node in a process of its own has its embedded Redis there, so its memory includes that of Redis")
		}
	}
	return b.run(ctx, cells)
}

func newBench(server *scratch.Redis, cfg Config) *bench {
	return &bench{
		redis: server, rdb: server.NewClient(1), prefix: "bench-" + uuid.NewString()[:8] + "-",
		duration: cfg.Duration, heapProfile: cfg.HeapProfile, out: cfg.Out, log: cfg.Log,
	}
}

func (b *bench) close() { _ = b.rdb.Close() }

// run measures all cells, which are sorted by workload.
func (b *bench) run(ctx context.Context, cells []cell) (*Report, error) {
	r := &Report{Redis: b.redis.String(), Go: runtime.Version(), Cores: runtime.NumCPU(),
		Duration: b.duration.Seconds(), Workloads: make(map[string]map[string]*Result)}
	var err error
	if r.Ping, err = b.ping(ctx); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(b.out, r.setup()); err != nil {
		return nil, err
	}
	explained := make(map[string]bool)
	for i, c := range cells {
		fmt.Fprintf(b.log, "[%d/%d] %s: %s … ", i+1, len(cells), c.load.name, c.who.name)
		result, err := b.cell(ctx, i, c)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(b.log, result.brief())
		if r.Workloads[c.load.name] == nil {
			r.Workloads[c.load.name] = make(map[string]*Result)
		}
		r.Workloads[c.load.name][c.who.name] = result
		if i+1 == len(cells) || cells[i+1].load.name != c.load.name {
			relate(r.Workloads[c.load.name])
			if err := r.writeTable(b.out, c.load, explained); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// ping returns the median round trip of 1,000 PINGs, in microseconds.
func (b *bench) ping(ctx context.Context) (report.Figure, error) {
	took := make([]report.Figure, 1000)
	for i := range took {
		sent := time.Now()
		if err := b.rdb.Ping(ctx).Err(); err != nil {
			return 0, fmt.Errorf("ping: %w", err)
		}
		took[i] = report.Figure(time.Since(sent).Nanoseconds()) / 1000
	}
	return report.Median(took), nil
}

// cell is one contender in one workload.
type cell struct {
	*bench
	prefix  string // unique prefix of its rooms, locks and nodes
	who     contender
	load    workload
	network string // see target
}

// cell measures the i-th cell, and removes its keys. If the contender cannot be measured, the result says why.
// It returns an error if ctx has ended.
func (b *bench) cell(ctx context.Context, i int, c cell) (*Result, error) {
	c.bench, c.prefix = b, fmt.Sprintf("%s%d-", b.prefix, i)
	r, err := []func(context.Context) (*Result, error){ofRooms: c.tryRooms, ofLocks: c.tryLocks,
		ofSockets: c.trySockets, ofMemory: c.tryMemory}[c.load.kind](ctx)
	if removed := b.redis.Remove(ctx, c.prefix); removed != nil {
		err = errors.Join(err, fmt.Errorf("remove the keys: %w", removed))
	}
	if ctx.Err() != nil {
		fmt.Fprintln(b.log, "stopped")
		return nil, context.Cause(ctx)
	}
	if err != nil {
		r = newResult(new(measurement), Violations{})
		r.Failure = err.Error()
	}
	return r, nil
}

// driver returns how the clients act.
func (c *cell) driver() driver {
	return driver{duration: c.duration, pace: c.load.pace, probe: c.usage}
}

// usage is the usage until a moment, or between two. NaN means unknown.
type usage struct {
	commands float64 // run by Redis, including those in scripts
	reads    float64 // reads of Redis from clients' sockets, roughly round trips
	micros   float64 // processor time of Redis, user and system
	own      float64 // processor time of this process, with nodes and clients
	mallocs  float64 // allocations of this process
	events   float64 // received by clients
}

func (u usage) since(earlier usage) usage {
	return usage{
		u.commands - earlier.commands, u.reads - earlier.reads, u.micros - earlier.micros, u.own - earlier.own,
		u.mallocs - earlier.mallocs, u.events - earlier.events,
	}
}

// usage returns the usage of Redis and of this process. The command that asks Redis counts, too.
func (b *bench) usage(ctx context.Context) (u usage, err error) {
	sections := []string{"stats"}
	if !b.redis.IsEmbedded() { // the embedded Redis has no other section
		sections = append(sections, "cpu")
	}
	info, err := b.rdb.InfoMap(ctx, sections...).Result()
	if err != nil {
		return u, fmt.Errorf("redis: INFO: %w", err)
	}
	field := func(section, name string) float64 {
		value, wrong := strconv.ParseFloat(info[section][name], 64)
		if wrong != nil && err == nil {
			err = fmt.Errorf("redis: INFO: %s: %w", name, wrong)
		}
		return value
	}
	u.commands, u.reads, u.micros = field("Stats", "total_commands_processed"), math.NaN(), math.NaN()
	if !b.redis.IsEmbedded() {
		u.reads = field("Stats", "total_reads_processed")
		u.micros = (field("CPU", "used_cpu_user") + field("CPU", "used_cpu_sys")) * 1e6
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.mallocs, u.own = float64(memory.Mallocs), process.CPU()
	return u, err
}
