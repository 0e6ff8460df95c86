package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/internal/process"
	"roomd/loadtest/internal/scratch"
	"roomd/loadtest/report"
)

// Config says what to measure. Each field with a help text is a flag of roomload; the text gives its meaning
// and default. Out, Log and Duration are required.
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

// Workloads returns the names and descriptions of the workloads, those of a group after the group.
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

// Validate returns an error if a value cannot be used. The error starts with the field's name in lower case,
// and its value.
func (c Config) Validate() error {
	if c.Duration <= 0 {
		return fmt.Errorf("duration is %v, it must be more than zero", c.Duration)
	}
	if c.Connections < 0 {
		return fmt.Errorf("connections is %d, it must be at least 1", c.Connections)
	}
	return cmp.Or(checkNames("only", c.Only, Contenders()), checkNames("workload", c.Workloads, Workloads()),
		scratch.Validate(c.Redis))
}

// checkNames returns an error if one of the names is not among all.
func checkNames(field string, names []string, all []report.Fact) error {
	var known []string
	for _, fact := range all {
		known = append(known, fact.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s is %q, it must be one of %s", field, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// cells returns the measurements of a valid Config in order. Those of memory have connections clients.
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
	rdb         *redis.Client // for use outside the measurements
	meter       *meter
	prefix      string // part of every key of the run
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
	wanted := cmp.Or(cfg.Connections, defaultConnections)
	connections := affordable(wanted, process.MaxFiles())
	cells := cfg.cells(connections)
	if slices.ContainsFunc(cells, func(c cell) bool { return c.load.kind == ofMemory }) {
		if connections < wanted {
			fmt.Fprintf(b.log, "the limit of %d open files (ulimit -n) allows %d connections instead of %d\n",
				process.MaxFiles(), connections, wanted)
		}
		if b.redis.IsEmbedded() {
			fmt.Fprintln(b.log, "a node in a process of its own has its embedded Redis there, so its memory includes that of Redis")
		}
	}
	return b.run(ctx, cells)
}

func newBench(server *scratch.Redis, cfg Config) *bench {
	return &bench{
		redis: server, rdb: server.NewClient(1), meter: newMeter(server), prefix: "bench-" + uuid.NewString()[:8] + "-",
		duration: cfg.Duration, heapProfile: cfg.HeapProfile, out: cfg.Out, log: cfg.Log,
	}
}

func (b *bench) close() {
	b.meter.close()
	_ = b.rdb.Close()
}

// run measures all cells, which are sorted by workload.
func (b *bench) run(ctx context.Context, cells []cell) (*Report, error) {
	r := newReport(b.redis, b.duration)
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
	return driver{duration: c.duration, pace: c.load.pace, probe: c.meter.read}
}
