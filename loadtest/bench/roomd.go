package bench

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	wsnode "roomd/transport/node"
)

const (
	closeTimeout = 15 * time.Second
)

// roomdNode is one node's coordinator.
type roomdNode struct {
	rdb     *redis.Client
	rooms   *coordinator.Coordinator
	session string
}

// roomd returns a function that opens nodes with those options.
func roomd(opts coordinator.Options) func(context.Context, target) (node, error) {
	return func(_ context.Context, t target) (node, error) {
		opts := opts
		opts.Node = t.name
		rdb := t.client()
		rooms, err := coordinator.New(rdb, opts)
		if err != nil {
			_ = rdb.Close()
			return nil, err
		}
		return &roomdNode{rdb, rooms, uuid.NewString()}, nil
	}
}

func (n *roomdNode) join(ctx context.Context, id, user string) error {
	_, err := n.rooms.Do(ctx, id, room.Join{User: user, Session: n.session})
	return err
}

func (n *roomdNode) leave(ctx context.Context, id, user string) error {
	_, err := n.rooms.Do(ctx, id, room.Leave{User: user, Session: n.session})
	return err
}

func (n *roomdNode) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = n.rooms.Close(ctx)
	_ = n.rdb.Close()
}

// roomdMembers reads the users with the key of the contract.
func roomdMembers(ctx context.Context, rdb *redis.Client, id string) ([]string, error) {
	return rdb.HKeys(ctx, usersKey(id)).Result()
}

// openNode starts a node with WebSockets. For a workload of rooms it has their seats, and no limits.
func openNode(ctx context.Context, cfg serverConfig) (server, error) {
	set := wsnode.Config{Listen: "127.0.0.1:0", Redis: cfg.db, Room: coordinator.Options{Node: cfg.name}}
	if cfg.seats > 0 {
		set.Room.Rules.Seating = room.Capacity(cfg.seats)
		set.Serve = transport.Options{
			PingInterval: time.Minute, // sockets that do not act yet answer no pings
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
