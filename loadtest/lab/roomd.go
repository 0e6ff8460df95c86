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

// roomd is the real coordinator, with a node for each process. The driver cannot stop it
// between two steps of its own. So the wire finds and strikes its steps on the way to
// Redis.
var roomd = discipline{
	name:  "roomd",
	about: "roomd's lock; the script that writes also checks the lock's token",
	ttl:   3,
	steps: lockSteps,
	way:   realNode{},
}

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
		if _, err := x.home.rooms.Do(ctx, x.id, room.Join(user, session(user))); err != nil {
			return err
		}
	}
	return nil
}

func (realNode) ask(ctx context.Context, c *caller) error {
	action := room.Join(c.user, session(c.user))
	if c.leave {
		action = room.Leave(c.user, session(c.user))
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
