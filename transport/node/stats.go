package node

import (
	"context"

	"github.com/redis/go-redis/v9"

	"roomd/room/coordinator"
	"roomd/transport"
)

// Stats are what a Node holds at a moment.
type Stats struct {
	Rooms   coordinator.Stats
	Clients transport.Stats
	Redis   redis.PoolStats // of the connections to Redis
}

// Stats counts. See the Stats of a coordinator and of a server for how long that takes.
func (n *Node) Stats() Stats {
	return Stats{n.rooms.Stats(), n.server.Stats(), *n.client.PoolStats()}
}

// report adds what the coordinator does not know to what the node says of itself.
func (n *Node) report(r *coordinator.NodeReport) {
	clients := n.server.Stats()
	r.Version, r.Settings, r.Admin, r.Draining = n.version, n.settings, n.AdminAddr(), n.server.Draining()
	r.Load.Connections, r.Load.MaxConnections = clients.Connections, n.most.clients
	r.Load.Rooms, r.Load.Members, r.Load.Watchers, r.Load.Graces = clients.Rooms, clients.Members, clients.Watchers, clients.Graces
}

// Checks returns what the node has found in the rooms of its clients.
func (n *Node) Checks() map[coordinator.Check]coordinator.Checked { return n.rooms.Checks() }

// MaxConnections returns how many game clients may be connected.
func (n *Node) MaxConnections() int { return n.most.clients }

// Ready reports whether new clients should come to this node: it does not drain, and Redis
// answers. Otherwise the error says why not.
func (n *Node) Ready(ctx context.Context) error { return n.server.Ready(ctx) }
