package loadtest

import (
	"context"
	"fmt"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/node"
)

const stopTimeout = 15 * time.Second

// fleet is the nodes to which the players connect.
type fleet struct {
	urls []string
	own  []*node.Node
}

func (c Config) rules() room.Rules { return room.Rules{Seating: room.Capacity(c.Capacity)} }

// startFleet starts the nodes that cfg asks for, unless cfg names running ones.
func startFleet(ctx context.Context, cfg Config, db *redisurl.DB) (*fleet, error) {
	f := &fleet{urls: cfg.Targets}
	if len(cfg.Targets) > 0 {
		return f, nil
	}
	for range cfg.Nodes {
		n, err := node.Start(ctx, node.Config{
			Listen: "127.0.0.1:0",
			Redis:  db,
			Room:   coordinator.Options{KeyPrefix: cfg.KeyPrefix, Rules: cfg.rules()},
			// No late leave of a broken connection changes the lists at the end, and players play without a pause.
			Serve: transport.Options{Grace: -1, Rate: -1, MaxPerAddress: -1, MaxNewRooms: -1},
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
