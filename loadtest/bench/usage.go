package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/redisserver"
)

// usage is what was used until a moment, or between two. NaN means unknown.
type usage struct {
	commands float64 // that Redis ran, including those in scripts
	micros   float64 // of Redis' processor time, user and system
	own      float64 // of this process' processor time: nodes and clients
	mallocs  float64 // of this process
	events   float64 // that clients received
}

func (u usage) since(earlier usage) usage {
	return usage{u.commands - earlier.commands, u.micros - earlier.micros, u.own - earlier.own, u.mallocs - earlier.mallocs, u.events - earlier.events}
}

func (u usage) plus(other usage) usage {
	return usage{u.commands + other.commands, u.micros + other.micros, u.own + other.own, u.mallocs + other.mallocs, u.events + other.events}
}

// meter reads the usage of Redis and of this process. Its own commands count, too.
type meter struct {
	rdb      *redis.Client
	embedded bool
}

func newMeter(r *redisserver.Redis) *meter { return &meter{r.NewClient(1), r.DB().IsEmbedded()} }

func (m *meter) close() { _ = m.rdb.Close() }

func (m *meter) read(ctx context.Context) (u usage, err error) {
	if u.commands, err = m.field(ctx, "stats", "Stats", "total_commands_processed"); err != nil {
		return u, err
	}
	u.micros = math.NaN()
	if !m.embedded {
		var user, system float64
		if user, err = m.field(ctx, "cpu", "CPU", "used_cpu_user"); err != nil {
			return u, err
		}
		if system, err = m.field(ctx, "cpu", "CPU", "used_cpu_sys"); err != nil {
			return u, err
		}
		u.micros = (user + system) * 1e6
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.mallocs = float64(memory.Mallocs)
	u.own = ownMicros()
	return u, nil
}

// field returns a number from Redis' INFO.
func (m *meter) field(ctx context.Context, section, title, name string) (float64, error) {
	info, err := m.rdb.InfoMap(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("redis: INFO %s: %w", section, err)
	}
	value, err := strconv.ParseFloat(info[title][name], 64)
	if err != nil {
		return 0, fmt.Errorf("redis: INFO %s: %s: %w", section, name, err)
	}
	return value, nil
}
