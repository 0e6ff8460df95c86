package bench

import (
	"context"
	"time"

	"github.com/google/uuid"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	wsnode "roomd/transport/node"
)

const (
	closeTimeout = 15 * time.Second
)

// roomd returns a function that opens nodes, each a coordinator with opts.
func roomd(opts coordinator.Options) func(context.Context, target) (node, error) {
	return func(_ context.Context, t target) (node, error) {
		opts := opts
		opts.Node = t.name
		rdb, session := t.client(), uuid.NewString()
		rooms, err := coordinator.New(rdb, opts)
		if err != nil {
			_ = rdb.Close()
			return node{}, err
		}
		return node{
			join: func(ctx context.Context, id, user string) error {
				_, err := rooms.Do(ctx, id, room.Join{User: user, Session: session})
				return err
			},
			leave: func(ctx context.Context, id, user string) error {
				_, err := rooms.Do(ctx, id, room.Leave{User: user, Session: session})
				return err
			},
			close: func() {
				ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
				defer cancel()
				_, _ = rooms.Close(ctx), rdb.Close()
			},
		}, nil
	}
}

// openNode starts a node with WebSockets. For a workload of rooms it has cfg.seats, and no limits.
func openNode(ctx context.Context, cfg serverConfig) (server, error) {
	set := wsnode.Config{Listen: "127.0.0.1:0", Redis: cfg.db, Room: coordinator.Options{Node: cfg.name}}
	if cfg.seats > 0 {
		set.Room.Rules.Seating = room.Capacity(cfg.seats)
		set.Serve = transport.Options{
			PingInterval: time.Minute, // idle sockets of the bench answer no pings
			Rate:         -1, MaxPerAddress: -1, MaxNewRooms: -1,
		}
	}
	n, err := wsnode.Start(ctx, set)
	if err != nil {
		return nil, err
	}
	return wsNode{n}, nil
}

type wsNode struct{ *wsnode.Node }

// Close drains the node.
func (n wsNode) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = n.Shutdown(ctx)
}
