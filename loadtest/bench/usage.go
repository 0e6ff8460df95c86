package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/internal/process"
	"roomd/loadtest/internal/scratch"
)

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

// meter reads the usage of Redis and of this process. Its own commands count, too.
type meter struct {
	rdb      *redis.Client
	embedded bool
}

func newMeter(r *scratch.Redis) *meter { return &meter{r.NewClient(1), r.IsEmbedded()} }

func (m *meter) close() { _ = m.rdb.Close() }

func (m *meter) read(ctx context.Context) (u usage, err error) {
	sections := []string{"stats"}
	if !m.embedded { // the embedded Redis has no other section
		sections = append(sections, "cpu")
	}
	info, err := m.rdb.InfoMap(ctx, sections...).Result()
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
	if !m.embedded {
		u.reads = field("Stats", "total_reads_processed")
		u.micros = (field("CPU", "used_cpu_user") + field("CPU", "used_cpu_sys")) * 1e6
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.mallocs, u.own = float64(memory.Mallocs), process.CPU()
	return u, err
}
