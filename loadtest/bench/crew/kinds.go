package crew

import (
	"context"
	"time"

	"roomd/loadtest/bench/echo"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room/coordinator"
	"roomd/transport/node"
)

const stopTimeout = 15 * time.Second

// nodeConfig returns how the bench's nodes are set. They have roomd's own defaults, because these
// are what is measured. On Linux each client has an address of its own, so that a limit by address
// does not bind them together; see source.
func nodeConfig(cfg ServerConfig, db *redisurl.DB) node.Config {
	return node.Config{
		Listen: "127.0.0.1:0",
		Redis:  db,
		Room:   coordinator.Options{Node: cfg.Name},
	}
}

var nodeKind = Kind{Node, func(ctx context.Context, cfg ServerConfig) (Service, error) {
	db, err := redisurl.Open(cfg.Redis)
	if err != nil {
		return nil, err
	}
	n, err := node.Start(ctx, nodeConfig(cfg, db))
	if err != nil {
		db.Close()
		return nil, err
	}
	return nodeService{n, db}, nil
}}

type nodeService struct {
	*node.Node
	db *redisurl.DB
}

// Close drains the node.
func (s nodeService) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = s.Shutdown(ctx)
	s.db.Close()
}

var echoKind = Kind{Echo, func(context.Context, ServerConfig) (Service, error) { return echo.Start() }}
