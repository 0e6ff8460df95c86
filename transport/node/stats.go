package node

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/node/internal/metrics"
	"roomd/transport/webhook"
)

// Stats are a node's numbers at a moment.
type Stats struct {
	Rooms   coordinator.Stats
	Clients transport.Stats
	Redis   redis.PoolStats // of the connections to Redis

	Webhooks []webhook.Stats
}

// Stats returns the node's numbers. It takes some milliseconds on a large node.
func (n *Node) Stats() Stats {
	return Stats{n.rooms.Stats(), n.server.Stats(), *n.client.PoolStats(), n.webhooks.Stats()}
}

// report adds numbers of this package to the node's report.
func (n *Node) report(r *coordinator.NodeReport) {
	clients := n.server.Stats()
	for _, w := range n.webhooks.Stats() {
		r.Webhooks = append(r.Webhooks, coordinator.NodeWebhook{Receiver: w.Receiver, LagMS: w.Lag.Milliseconds()})
	}
	r.Version, r.Settings, r.Admin, r.Draining = n.version, n.Settings(), n.AdminAddr(), n.server.Draining()
	r.Load.Connections, r.Load.MaxConnections = clients.Connections, n.MaxConnections()
	r.Load.Rooms, r.Load.Members, r.Load.Watchers, r.Load.Graces = clients.Rooms, clients.Members, clients.Watchers,
		clients.Graces
}

// Checks returns the results of the continuous checks of this node.
func (n *Node) Checks() map[coordinator.Check]coordinator.Checked { return n.rooms.Checks() }

// MaxConnections returns the limit on game clients.
func (n *Node) MaxConnections() int { return n.most.clients }

// Settings returns the node's settings as shown to operators. Do not change the map.
func (n *Node) Settings() map[string]string { return n.settings }

// Ready returns nil if new clients should come to this node, otherwise the reason; see [transport.Server.Ready].
func (n *Node) Ready(ctx context.Context) error { return n.server.Ready(ctx) }

// show adds the state of the node to the metrics, and registers them with Config.Registerer.
func (n *Node) show(with prometheus.Registerer) error {
	if n.metrics == nil {
		return nil
	}
	n.metrics.Observe(watched{n})
	if with == nil {
		return nil
	}
	switch err := with.Register(n.metrics); {
	case errors.As(err, new(prometheus.AlreadyRegisteredError)):
		return &room.InvalidError{Field: "Registerer", Problem: "has the metrics of another node: " +
			"give each node labels of its own, by prometheus.WrapRegistererWith"}
	case err != nil:
		return &room.InvalidError{Field: "Registerer", Problem: "does not take the metrics: " + err.Error()}
	}
	n.hide = sync.OnceFunc(func() { with.Unregister(n.metrics) })
	return nil
}

type watched struct{ *Node }

func (o watched) Stats() metrics.Stats { return metrics.Stats(o.Node.Stats()) }
