package node

import (
	"cmp"

	"roomd/transport"
)

// Reload applies the settings that can change while the node runs: the part of cfg.Serve that
// [transport.Server.SetLimits] accepts, which also limits the HTTP API, cfg.Webhooks.Timeout and cfg.Settings. It
// ignores the rest. If one is unusable it changes nothing, and returns an error that names the field. Call it from
// one goroutine, and not during Shutdown.
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
