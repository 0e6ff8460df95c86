package measure

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest/launch"
)

const (
	hashSlots    = 16384
	readyTimeout = 30 * time.Second
	readyPause   = 50 * time.Millisecond
)

// masters are servers of Redis, each a process: one, or those of a Cluster. Replicas follow the first.
type masters struct {
	servers []*launch.Server
	clients []*redis.Client // of the masters
	cluster bool
}

// startMasters starts that many. More than one are a Cluster.
func startMasters(ctx context.Context, n, replicas int, cluster bool) (_ *masters, err error) {
	m := &masters{cluster: cluster}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if !cluster && n != 1 {
		return nil, errors.New("more than one master are a Cluster")
	}
	buses := make([]int, n)
	for i := range n {
		var args []string
		if cluster {
			if buses[i], err = launch.FreePort(); err != nil { // by default the first port and 10000, which need not be free
				return nil, err
			}
			args = []string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(buses[i])}
		}
		if err := m.start(ctx, args...); err != nil {
			return nil, err
		}
		m.clients = append(m.clients, redis.NewClient(&redis.Options{Addr: m.servers[i].Addr(), PoolSize: 1}))
	}
	if cluster {
		if err := m.meet(ctx, buses); err != nil {
			return nil, fmt.Errorf("start a Cluster: %w", err)
		}
	}
	for range replicas {
		if err := m.start(ctx, "--replicaof", "127.0.0.1 "+strconv.Itoa(m.servers[0].Port()), "--repl-diskless-sync-delay", "0"); err != nil {
			return nil, err
		}
	}
	return m, m.await(ctx, 0, "replication", "state=online", replicas)
}

func (m *masters) start(ctx context.Context, args ...string) error {
	s, err := launch.Start(ctx, launch.Plain(args...))
	if err == nil {
		m.servers = append(m.servers, s)
	}
	return err
}

// meet makes a Cluster of the servers, each with its share of the slots.
func (m *masters) meet(ctx context.Context, buses []int) error {
	n := len(m.clients)
	for i, c := range m.clients {
		commands := [][]any{{"CLUSTER", "SET-CONFIG-EPOCH", i + 1}, {"CLUSTER", "ADDSLOTSRANGE", i * hashSlots / n, (i+1)*hashSlots/n - 1}}
		for j := range i {
			commands = append(commands, []any{"CLUSTER", "MEET", "127.0.0.1", m.servers[j].Port(), buses[j]})
		}
		for _, command := range commands {
			if err := c.Do(ctx, command...).Err(); err != nil {
				return err
			}
		}
	}
	for i := range m.clients {
		for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384\r", fmt.Sprintf("cluster_known_nodes:%d\r", n)} {
			if err := m.await(ctx, i, "", want, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// await returns when a server says something at least so often, in a section of INFO, or in CLUSTER INFO.
func (m *masters) await(ctx context.Context, i int, section, text string, times int) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		ask := m.clients[i].ClusterInfo(ctx)
		if section != "" {
			ask = m.clients[i].Info(ctx, section)
		}
		if ask.Err() == nil && strings.Count(ask.Val(), text) >= times {
			return nil
		}
		if err := pause.For(ctx, readyPause); err != nil {
			return fmt.Errorf("waited for %s: %w", text, errors.Join(err, ask.Err()))
		}
	}
}

// url returns what nodes get as --redis.
func (m *masters) url() string {
	if !m.cluster {
		return m.servers[0].URL()
	}
	var addrs []string
	for i := range m.clients {
		addrs = append(addrs, m.servers[i].Addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// used is what all masters have used so far; memory is as of now.
type used struct {
	cpu     float64 // µs of the threads that run commands
	in, out float64 // bytes
	memory  float64
}

// read asks all masters.
func (m *masters) read(ctx context.Context) (sum used, err error) {
	for _, c := range m.clients {
		info, err := c.InfoMap(ctx, "cpu", "stats", "memory").Result()
		if err != nil {
			return sum, fmt.Errorf("redis: INFO: %w", err)
		}
		for _, f := range []struct {
			section, name string
			to            *float64
			scale         float64
		}{
			{"CPU", "used_cpu_user_main_thread", &sum.cpu, 1e6}, {"CPU", "used_cpu_sys_main_thread", &sum.cpu, 1e6},
			{"Stats", "total_net_input_bytes", &sum.in, 1}, {"Stats", "total_net_output_bytes", &sum.out, 1},
			// Without the buffers of connections, which come and go.
			{"Memory", "used_memory", &sum.memory, 1}, {"Memory", "mem_clients_normal", &sum.memory, -1}, {"Memory", "mem_clients_slaves", &sum.memory, -1},
		} {
			v, err := strconv.ParseFloat(info[f.section][f.name], 64)
			if err != nil {
				return sum, fmt.Errorf("redis: INFO: %s: %w", f.name, err)
			}
			*f.to += v * f.scale
		}
	}
	return sum, nil
}

// version returns the version of the first server.
func (m *masters) version(ctx context.Context) string {
	c := redis.NewClient(&redis.Options{Addr: m.servers[0].Addr(), PoolSize: 1})
	defer c.Close()
	info, err := c.InfoMap(ctx, "server").Result()
	if err != nil {
		return "?"
	}
	return info["Server"]["redis_version"]
}

func (m *masters) close() {
	for _, c := range m.clients {
		_ = c.Close()
	}
	for _, s := range m.servers {
		_ = s.Close()
	}
}
