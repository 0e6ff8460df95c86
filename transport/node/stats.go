package node

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/api"
	"roomd/transport/node/internal/metrics"
	"roomd/transport/webhook"
)

// Stats are what a Node holds at a moment.
type Stats struct {
	Rooms   coordinator.Stats
	Clients transport.Stats
	Redis   redis.PoolStats // of the connections to Redis

	Webhooks []webhook.Stats
}

// Stats counts. See the Stats of a coordinator and of a server for how long that takes.
func (n *Node) Stats() Stats {
	return Stats{n.rooms.Stats(), n.server.Stats(), *n.client.PoolStats(), n.webhooks.Stats()}
}

// report adds what the coordinator does not know to what the node says of itself.
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

// Checks returns what the node has found in the rooms of its clients.
func (n *Node) Checks() map[coordinator.Check]coordinator.Checked { return n.rooms.Checks() }

// MaxConnections returns how many game clients may be connected.
func (n *Node) MaxConnections() int { return n.most.Load().clients }

// Settings returns what the node says of itself to operators. Nobody may change it.
func (n *Node) Settings() map[string]string { return *n.settings.Load() }

// setSettings sets what Settings returns; see Config.Settings for nil.
func (n *Node) setSettings(settings map[string]string) {
	if settings == nil {
		settings = n.rooms.Settings().Strings()
	}
	n.settings.Store(&settings)
}

// Ready reports whether new clients should come to this node: it does not drain, and Redis
// answers. Otherwise the error says why not.
func (n *Node) Ready(ctx context.Context) error { return n.server.Ready(ctx) }

// Validate returns the error that Start would return for a field of cfg that cannot be used. It
// does not listen, and asks nothing of Redis.
func (cfg Config) Validate() error {
	if cfg.Redis == nil {
		return errors.New("node: Redis is nil")
	}
	if err := checkListen(cfg.Listen, cfg.Insecure || cfg.Serve.Auth != nil); err != nil {
		return err
	}
	if cfg.AdminListen != "" {
		if err := checkAdminListen(cfg.AdminListen, cfg.Serve.Auth != nil); err != nil {
			return err
		}
	}
	if err := metrics.CheckSettings(cfg.Settings); err != nil {
		return err
	}
	client := cfg.Redis.NewClient()
	defer client.Close()
	ctx := context.Background()
	rooms, err := coordinator.New(client, cfg.Room)
	if err != nil {
		return err
	}
	defer rooms.Close(ctx)
	hooks, err := cfg.webhooks(rooms)
	if err != nil {
		return err
	}
	hooks.Close()
	server, err := transport.New(rooms, cfg.Serve)
	if err != nil {
		return err
	}
	if err := server.Shutdown(ctx); err != nil {
		return err
	}
	_, err = api.New(rooms, server, cfg.apiOptions())
	return err
}

// maxClients returns how many game clients a node takes that is to take wanted (0 for the default), and how many
// files the process may have open, or 0 if that is not known. It fails if there are too few for any client.
func maxClients(wanted int) (clients, files int, err error) {
	files = maxFiles()
	most, err := limitsFor(cmp.Or(wanted, transport.DefaultMaxConnections), files)
	return most.clients, files, err
}
