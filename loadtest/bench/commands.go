package bench

import (
	"context"
	_ "embed"
	"errors"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/room"
)

var (
	//go:embed lua/join.lua
	joinLua string
	//go:embed lua/leave.lua
	leaveLua string
)

var (
	joinScript  = redis.NewScript(joinLua)
	leaveScript = redis.NewScript(leaveLua)
)

var errRoomFull = errors.New("the room is full")

func openLua(ctx context.Context, t target) (node, error) {
	rdb := t.client()
	n, err := luaNode(ctx, rdb, rdb)
	n.close = func() { _ = rdb.Close() }
	return n.opened(err)
}

// openLuaAutoPipeline sends the commands of all clients in up to eight pipelines at a time. A client waits for
// each of its commands, so they stay in order.
func openLuaAutoPipeline(ctx context.Context, t target) (node, error) {
	rdb := t.client()
	pipeline, err := rdb.AutoPipelineWithOptions(&redis.AutoPipelineOptions{MaxConcurrentBatches: 8, Unordered: true})
	if err != nil {
		_ = rdb.Close()
		return node{}, err
	}
	n, err := luaNode(ctx, rdb, pipeline)
	n.close = func() { _, _ = pipeline.Close(), rdb.Close() }
	return n.opened(err)
}

// luaNode does each action by one script, atomic and with a capacity, without a lock.
func luaNode(ctx context.Context, rdb *redis.Client, through redis.Scripter) (n node, err error) {
	session := uuid.NewString()
	n.join = func(ctx context.Context, id, user string) error {
		entered, err := joinScript.Run(ctx, through, []string{usersKey(id)}, user, session, room.MaxSeats).Bool()
		if err == nil && !entered {
			return errRoomFull
		}
		return err
	}
	n.leave = func(ctx context.Context, id, user string) error {
		return leaveScript.Run(ctx, through, []string{usersKey(id)}, user).Err()
	}
	return n, errors.Join(joinScript.Load(ctx, rdb).Err(), leaveScript.Load(ctx, rdb).Err())
}

// hashMembers reads the users of a room from the hash that roomd also uses.
func hashMembers(ctx context.Context, rdb *redis.Client, id string) ([]string, error) {
	return rdb.HKeys(ctx, usersKey(id)).Result()
}

// openSadd asks as little as possible of Redis: one command on a set, without a lock.
func openSadd(_ context.Context, t target) (node, error) {
	rdb := t.client()
	return node{
		join:  func(ctx context.Context, room, user string) error { return rdb.SAdd(ctx, usersKey(room), user).Err() },
		leave: func(ctx context.Context, room, user string) error { return rdb.SRem(ctx, usersKey(room), user).Err() },
		close: func() { _ = rdb.Close() },
	}, nil
}

func saddMembers(ctx context.Context, rdb *redis.Client, room string) ([]string, error) {
	return rdb.SMembers(ctx, usersKey(room)).Result()
}
