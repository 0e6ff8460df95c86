package node

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"roomd/room"
	"roomd/transport/node/internal/metrics"
)

// count starts counting the node's work, if somebody can read the metrics. It keeps the caller's traces.
func (n *Node) count(cfg *Config) error {
	if err := metrics.CheckSettings(cfg.Settings); err != nil || cfg.AdminListen == "" && cfg.Registerer == nil {
		return err
	}
	n.metrics = metrics.New()
	n.metrics.Hook(n.client)
	cfg.Room.Trace = metrics.Join(n.metrics.Rooms(), cfg.Room.Trace)
	cfg.Serve.Trace = metrics.Join(n.metrics.Clients(), cfg.Serve.Trace)
	return nil
}

// show adds the state of the node to the counts, and registers all metrics.
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
		return &room.InvalidError{Field: "Registerer",
			Problem: "has the metrics of another node: give each node labels of its own, by prometheus.WrapRegistererWith"}
	case err != nil:
		return &room.InvalidError{Field: "Registerer", Problem: "does not take the metrics: " + err.Error()}
	}
	n.hide = sync.OnceFunc(func() { with.Unregister(n.metrics) })
	return nil
}

type watched struct{ *Node }

func (o watched) Stats() metrics.Stats { return metrics.Stats(o.Node.Stats()) }
