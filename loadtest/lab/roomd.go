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
)

// roomd is the real coordinator, a node of its own for each process. What it does
// in between cannot be stopped from here: its steps are found, and struck, on the
// way between it and Redis (see wire).
var roomd = discipline{
	name:  "roomd",
	about: "room.Coordinator: the write is checked against the lock's token in the same script",
	ttl:   3,
	steps: lockSteps,
	way:   coordinator{},
}

// closePatience is how long a coordinator whose Redis is gone may take to close.
const closePatience = 100 * time.Millisecond

// coordinator is roomd's way.
type coordinator struct{}

func (coordinator) open(p *process) error {
	rooms, err := room.New(p.rdb, room.Options{
		Node:     p.name,
		LockTTL:  p.x.seconds(roomd.ttl),
		LockWait: p.x.patience,
	})
	p.rooms = rooms
	return err
}

func (coordinator) close(p *process) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_ = p.rooms.Close(ctx)
}

// fill also gives Redis the scripts that the fault then meets.
func (coordinator) fill(ctx context.Context, x *cell, users []string) error {
	for _, user := range users {
		if _, err := x.home.rooms.Do(ctx, x.id, room.Join(user, session(user))); err != nil {
			return err
		}
	}
	return nil
}

func (coordinator) ask(ctx context.Context, c *caller) error {
	action := room.Join(c.user, session(c.user))
	if c.leave {
		action = room.Leave(c.user, session(c.user))
	}
	_, err := c.process.rooms.Do(ctx, c.x.id, action)
	switch {
	case errors.Is(err, room.ErrUnknown):
		return fmt.Errorf("%w: %w", errUnknown, err)
	case errors.Is(err, room.ErrNotMember): // it looked, and did not find the player
		c.record(anomaly.Event{Kind: anomaly.Read})
	}
	return err
}

func (coordinator) members(ctx context.Context, p redis.Pipeliner, key string) func() ([]string, error) {
	keys := p.HKeys(ctx, key)
	return func() ([]string, error) {
		slices.Sort(keys.Val()) // a hash has no order
		return keys.Result()
	}
}

// session names the one session of a user.
func session(user string) string { return "session of " + user }
