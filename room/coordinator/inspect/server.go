// Package inspect reads the settings of Redis servers that a coordinator depends on and cannot change. It writes
// nothing, and needs no more rights than a coordinator.
package inspect

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// Server describes one Redis server, as it reports itself. A field that it does not report is zero.
type Server struct {
	Address string
	Product string // such as Redis 7.0.15 or Valkey 8.1.1
	Mode    string // standalone, cluster or sentinel
	TooOld  bool   // its commands are known to be those of a Redis before redisconn.MinRedis
	NoRunID bool   // it does not tell that it was restarted: see package store

	IsReplica bool
	ReadOnly  bool // a replica that takes no writes
	Loading   bool // reading its data; answers nothing else yet

	UsedMemory, MaxMemory int64  // in bytes; MaxMemory 0 is no limit
	Policy                string // maxmemory-policy

	AppendOnly  bool
	WriteFailed string // the kind of persistence that failed last: AOF or RDB

	Replicas int // connected and in step

	Config *Config // nil if it was not read, or the client's user may not read it

	RoundTrip   time.Duration // the median of several
	SlowestTrip time.Duration
	ClockAhead  time.Duration // how far its clock is ahead of ours
	ClockError  time.Duration // how far ClockAhead may be off
}

// Config has the settings that only CONFIG GET reports.
type Config struct {
	AppendSync   string // always, everysec or no
	Save         string // when it writes a snapshot; empty for never
	MinReplicas  int    // min-replicas-to-write
	FullCoverage bool   // cluster-require-full-coverage
}

// Servers describes the server of a client, or all masters of a Cluster, sorted by address. If thorough, it also
// measures clock and round trip, and reads the configuration if the client's user may. If a server does not answer,
// Servers returns what it knows of all, and that server's error.
func Servers(ctx context.Context, client redis.UniversalClient, thorough bool) ([]Server, error) {
	var mu sync.Mutex
	var all []Server
	err := redisconn.EachMaster(ctx, client, func(ctx context.Context, c redis.UniversalClient) error {
		s, err := ask(ctx, c, thorough)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
		return err
	})
	slices.SortFunc(all, func(a, b Server) int { return strings.Compare(a.Address, b.Address) })
	return all, err
}

func ask(ctx context.Context, c redis.UniversalClient, thorough bool) (Server, error) {
	s := Server{Address: addressOf(ctx, c)}
	info, err := c.Info(ctx).Result()
	if err != nil {
		return s, err
	}
	s.read(redisconn.ParseInfo(info))
	if !thorough || s.Mode == "sentinel" { // a Sentinel has no such CONFIG, and no TIME
		return s, nil
	}
	s.Config = configOf(ctx, c)
	return s, s.measure(ctx, c)
}

// configOf returns a server's configuration, nil if the client's user may not read it, as usual where Redis is rented.
func configOf(ctx context.Context, c redis.UniversalClient) *Config {
	get := redis.NewMapStringStringCmd(ctx, "config", "get", "appendfsync", "save", "min-replicas-to-write",
		"cluster-require-full-coverage")
	_ = c.Process(ctx, get)
	values := get.Val()
	if len(values) == 0 {
		return nil
	}
	config := &Config{AppendSync: values["appendfsync"], Save: values["save"],
		FullCoverage: values["cluster-require-full-coverage"] == "yes"}
	config.MinReplicas, _ = strconv.Atoi(values["min-replicas-to-write"])
	return config
}

// addressOf returns the address of a client's server. A client of Sentinels does not know it: then addressOf
// asks the server for its end of the connection.
func addressOf(ctx context.Context, c redis.UniversalClient) string {
	if one, ok := c.(*redis.Client); ok && one.Options().Addr != "FailoverClient" {
		return one.Options().Addr
	}
	info, _ := c.Do(ctx, "client", "info").Text()
	for field := range strings.FieldsSeq(info) {
		if addr, found := strings.CutPrefix(field, "laddr="); found {
			return addr
		}
	}
	return "the master"
}

func (s *Server) read(info redisconn.Info) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64)
		return n
	}
	s.Product, s.Mode, s.TooOld = info.Product(), info.Mode(), info.IsTooOld()
	s.NoRunID = s.Product != "" && info["run_id"] == ""
	s.IsReplica = info["role"] == "slave"
	s.ReadOnly = s.IsReplica && info["slave_read_only"] != "0"
	s.Loading = info["loading"] == "1"
	s.UsedMemory, s.MaxMemory, s.Policy = number("used_memory"), number("maxmemory"), info["maxmemory_policy"]
	s.AppendOnly = info["aof_enabled"] == "1"
	switch {
	case info["aof_last_write_status"] == "err":
		s.WriteFailed = "AOF"
	case info["rdb_last_bgsave_status"] == "err":
		s.WriteFailed = "RDB"
	}
	for name, value := range info {
		if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") {
			s.Replicas++
		}
	}
}

// trips is the number of requests that measure sends.
const trips = 15

func (s *Server) measure(ctx context.Context, c redis.UniversalClient) error {
	took := make([]time.Duration, trips)
	for i := range took {
		sent := time.Now()
		there, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		took[i] = time.Since(sent)
		if i == 0 || took[i]/2 < s.ClockError {
			s.ClockError = took[i] / 2
			s.ClockAhead = there.Sub(sent.Add(took[i] / 2))
		}
	}
	slices.Sort(took)
	s.RoundTrip, s.SlowestTrip = took[trips/2], took[trips-1]
	return nil
}

// Evicts reports whether the server may delete keys to make room when its memory is full.
func (s *Server) Evicts() bool { return s.Policy != "" && s.Policy != "noeviction" }

// ClusterState describes a Cluster, as it reports itself.
type ClusterState struct {
	State      string // ok or fail
	SlotsOK    int
	MastersAll int
}

// ClusterOf returns the state of a Cluster, nil for a Redis that is not one.
func ClusterOf(ctx context.Context, client redis.UniversalClient) (*ClusterState, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return nil, nil
	}
	info, err := cluster.ClusterInfo(ctx).Result()
	if err != nil {
		return nil, err
	}
	found := redisconn.ParseInfo(info)
	state := &ClusterState{State: found["cluster_state"]}
	state.SlotsOK, _ = strconv.Atoi(found["cluster_slots_ok"])
	state.MastersAll, _ = strconv.Atoi(found["cluster_size"])
	return state, nil
}
