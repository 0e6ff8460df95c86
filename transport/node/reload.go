package node

import (
	"cmp"

	"roomd/transport"
)

// Reload puts in force what can change while the node runs: of cfg.Serve what [transport.Server.SetLimits] takes,
// which binds the HTTP API, too, cfg.Webhooks.Timeout and cfg.Settings. Nothing else of cfg is used. It returns
// an error that names the field, and changes nothing, if one cannot be used. Call it from one goroutine, while
// Shutdown is not called.
func (n *Node) Reload(cfg Config) error {
	most, err := limitsFor(cmp.Or(cfg.Serve.MaxConnections, transport.DefaultMaxConnections), maxFiles())
	if err != nil {
		return err
	}
	cfg.Serve.MaxConnections = most.clients
	if err := n.server.SetLimits(cfg.Serve); err != nil {
		return err
	}
	n.most.Store(&most)
	n.bounded.setMax(most.total)
	n.api.SetRate(cfg.Serve.Rate, cfg.Serve.Burst)
	n.webhooks.SetTimeout(cfg.Webhooks.Timeout)
	n.setSettings(cfg.Settings)
	return nil
}
