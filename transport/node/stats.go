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

// MaxConnections returns how many game clients may be connected.
func (n *Node) MaxConnections() int { return n.most.clients }

// Ready reports whether new clients should come to this node: it does not drain, and Redis
// answers. Otherwise the error says why not.
func (n *Node) Ready(ctx context.Context) error { return n.server.Ready(ctx) }
