package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/webhook"
)

// readyTimeout limits how long Prometheus waits for Redis' answer.
const readyTimeout = time.Second

// Stats are a node's numbers at a moment.
type Stats struct {
	Rooms   coordinator.Stats
	Clients transport.Stats
	Redis   redis.PoolStats

	Webhooks []webhook.Stats
}

// Node is the part of a node that gauges read.
type Node interface {
	Stats() Stats
	MaxConnections() int
	Settings() map[string]string
	Ready(ctx context.Context) error
	Checks() map[coordinator.Check]coordinator.Checked
}

// gauges read a node when Prometheus asks, so that nothing is counted twice.
type gauges struct {
	node   Node
	all    []gauge
	checks *prometheus.Desc

	requests, entries, lag *prometheus.Desc // of webhooks
}

type gauge struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Stats) int
}

func newGauges(n Node) *gauges {
	g := &gauges{node: n}
	g.checks = describe("invariant_violations",
		"Rooms of this node's clients that are not as they should be, by what was checked.", "check")
	g.requests = describe("webhook_requests_total",
		"Requests to the receivers of commits, by whether they were acknowledged.", "receiver", "result")
	g.entries = describe("webhook_commits_total", "Commits that receivers have acknowledged, and gaps.", "receiver")
	g.lag = describe("webhook_lag_seconds",
		"How old the oldest commit is that this node is sending to a receiver, which has not acknowledged it.", "receiver")
	g.add("feed_waiting_rooms", "Rooms with commits that this node has not copied into the feed yet.",
		func(s *Stats) int { return s.Rooms.Uncopied })
	g.add("connections", "Game clients that are connected.", func(s *Stats) int { return s.Clients.Connections })
	g.add("connections_limit", "How many game clients may be connected.",
		func(*Stats) int { return n.MaxConnections() })
	g.add("connections_without_token", "Connections that have shown no token yet.",
		func(s *Stats) int { return s.Clients.Unauthenticated })
	g.add("rooms", "Rooms that have members or watchers among this node's connections.",
		func(s *Stats) int { return s.Clients.Rooms })
	g.add("members", "Seats of this node's connections.", func(s *Stats) int { return s.Clients.Members })
	g.add("watchers", "Watches of this node's connections.", func(s *Stats) int { return s.Clients.Watchers })
	g.add("sessions_in_grace", "Sessions whose connections were lost, and whose users keep their seats.",
		func(s *Stats) int { return s.Clients.Graces })
	g.add("queued_bytes", "Bytes that wait for the clients, without snapshots.",
		func(s *Stats) int { return s.Clients.Queued })
	g.add("queued_bytes_most", "Bytes that wait for the one client for which most do.",
		func(s *Stats) int { return s.Clients.MostQueued })
	g.add("queue_length", "Actions that wait for their room's lock.", func(s *Stats) int { return s.Rooms.Waiting })
	g.add("busy_rooms", "Rooms on which this node works at the moment.", func(s *Stats) int { return s.Rooms.Busy })
	g.add("copied_rooms", "Idle rooms of which this node keeps a copy.", func(s *Stats) int { return s.Rooms.Copies })
	g.add("redis_pool_connections", "Connections to Redis, without those for events.",
		func(s *Stats) int { return int(s.Redis.TotalConns) })
	g.add("redis_pool_idle_connections", "Connections to Redis that no request uses.",
		func(s *Stats) int { return int(s.Redis.IdleConns) })
	g.add("ready", "1 if the node takes new clients: it does not drain, and Redis answers. Else 0.",
		func(*Stats) int { return g.ready() })
	g.addTotal("redis_pool_misses_total", "Requests for which no connection to Redis was free.",
		func(s *Stats) int { return int(s.Redis.Misses) })
	g.addTotal("redis_pool_timeouts_total", "Requests that waited in vain for a connection to Redis.",
		func(s *Stats) int { return int(s.Redis.Timeouts) })
	return g
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

func (g *gauges) add(name, help string, value func(*Stats) int) {
	g.all = append(g.all, gauge{describe(name, help), prometheus.GaugeValue, value})
}

func (g *gauges) addTotal(name, help string, value func(*Stats) int) {
	g.all = append(g.all, gauge{describe(name, help), prometheus.CounterValue, value})
}

func (g *gauges) ready() int {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	if g.node.Ready(ctx) != nil {
		return 0
	}
	return 1
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, one := range g.all {
		to <- one.desc
	}
	for _, desc := range []*prometheus.Desc{g.checks, g.requests, g.entries, g.lag} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	stats := g.node.Stats()
	for _, one := range g.all {
		to <- prometheus.MustNewConstMetric(one.desc, one.kind, float64(one.value(&stats)))
	}
	counter, level := prometheus.CounterValue, prometheus.GaugeValue
	for _, w := range stats.Webhooks {
		to <- prometheus.MustNewConstMetric(g.requests, counter, float64(w.Sent), w.Receiver, "acknowledged")
		to <- prometheus.MustNewConstMetric(g.requests, counter, float64(w.Failed), w.Receiver, "failed")
		to <- prometheus.MustNewConstMetric(g.entries, counter, float64(w.Entries), w.Receiver)
		to <- prometheus.MustNewConstMetric(g.lag, level, w.Lag.Seconds(), w.Receiver)
	}
	for check, found := range g.node.Checks() {
		to <- prometheus.MustNewConstMetric(g.checks, prometheus.GaugeValue, float64(found.Rooms), string(check))
	}
}
