package loadtest

import (
	"context"
	"fmt"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/transport"
	"roomd/transport/node"
)

const stopTimeout = 15 * time.Second

// fleet is the nodes that the players connect to.
type fleet struct {
	urls []string
	own  []*node.Node
}

// startFleet starts the nodes that cfg asks for, or names those that run already.
func startFleet(ctx context.Context, cfg Config, db *redisurl.DB) (*fleet, error) {
	f := &fleet{urls: cfg.Targets}
	if len(cfg.Targets) > 0 {
		return f, nil
	}
	for range cfg.Nodes {
		n, err := node.Start(ctx, node.Config{
			Listen: "127.0.0.1:0",
			Redis:  db,
			Room:   room.Options{Rules: room.Rules{Capacity: cfg.Capacity}},
			Serve:  transport.Options{Grace: -1}, // no leave of a cut connection comes while the lists are compared
		})
		if err != nil {
			f.stop()
			return nil, fmt.Errorf("start a node: %w", err)
		}
		f.own = append(f.own, n)
		f.urls = append(f.urls, n.URL())
	}
	return f, nil
}

func (f *fleet) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for _, n := range f.own {
		_ = n.Shutdown(ctx)
	}
}
