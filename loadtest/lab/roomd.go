package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
	"roomd/room"
	"roomd/room/coordinator"
)

// closePatience is how long a coordinator without its Redis may take to close.
const closePatience = 100 * time.Millisecond

// realNode is roomd's way.
type realNode struct{}

func (realNode) open(p *process) error {
	rooms, err := coordinator.New(p.rdb, coordinator.Options{
		Node:     p.name,
		LockTTL:  p.x.seconds(roomd.ttl),
		LockWait: p.x.patience,
	})
	p.rooms = rooms
	return err
}

func (realNode) close(p *process) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_ = p.rooms.Close(ctx)
}

// fill also loads the scripts into Redis, before the fault.
func (realNode) fill(ctx context.Context, x *cell, users []string) error {
	for _, user := range users {
		if _, err := x.home.rooms.Do(ctx, x.id, room.Join{User: user, Session: session(user)}); err != nil {
			return err
		}
	}
	return nil
}

func (realNode) ask(ctx context.Context, c *caller) error {
	var action room.Action = room.Join{User: c.user, Session: session(c.user)}
	if c.leave {
		action = room.Leave{User: c.user, Session: session(c.user)}
	}
	_, err := c.process.rooms.Do(ctx, c.x.id, action)
	switch {
	case errors.Is(err, room.ErrUnknown):
		return fmt.Errorf("%w: %w", errUnknown, err)
	case errors.Is(err, room.ErrNotMember): // roomd did not find the player in the list
		c.record(anomaly.Event{Kind: anomaly.Read})
	}
	return err
}

func (realNode) members(ctx context.Context, p redis.Pipeliner, key string) func() ([]string, error) {
	keys := p.HKeys(ctx, key)
	return func() ([]string, error) {
		slices.Sort(keys.Val()) // a hash has no order
		return keys.Result()
	}
}

// session returns the name of a user's only session.
func session(user string) string { return "session of " + user }
