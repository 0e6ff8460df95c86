package bench

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"roomd/room"
)

const (
	// fillersAtOnce is how many users a room is filled with at a time: what one
	// hold can take.
	fillersAtOnce = room.DefaultMaxBatch

	closeTimeout = 15 * time.Second
)

// roomdNode is one node's coordinator.
type roomdNode struct {
	rdb     *redis.Client
	rooms   *room.Coordinator
	session string
}

// roomd returns what opens nodes with those options.
func roomd(opts room.Options) func(context.Context, target) (node, error) {
	return func(_ context.Context, t target) (node, error) {
		opts := opts
		opts.Node = t.name
		rdb := t.client()
		rooms, err := room.New(rdb, opts)
		if err != nil {
			_ = rdb.Close()
			return nil, err
		}
		return &roomdNode{rdb, rooms, uuid.NewString()}, nil
	}
}

func (n *roomdNode) join(ctx context.Context, id, user string) error {
	_, err := n.rooms.Do(ctx, id, room.Join(user, n.session))
	return err
}

func (n *roomdNode) leave(ctx context.Context, id, user string) error {
	_, err := n.rooms.Do(ctx, id, room.Leave(user, n.session))
	return err
}

// fill joins as many at a time as share a hold.
func (n *roomdNode) fill(ctx context.Context, id string, users []string) error {
	for chunk := range slices.Chunk(users, fillersAtOnce) {
		group, ctx := errgroup.WithContext(ctx)
		for _, user := range chunk {
			group.Go(func() error { return n.join(ctx, id, user) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (n *roomdNode) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = n.rooms.Close(ctx)
	_ = n.rdb.Close()
}

// roomdMembers reads the users by the key of the contract.
func roomdMembers(ctx context.Context, rdb *redis.Client, id string) ([]string, error) {
	return rdb.HKeys(ctx, usersKey(id)).Result()
}
