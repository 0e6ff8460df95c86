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

// lua is one script for an action, atomic and with a capacity, without a lock.
type lua struct {
	rdb      *redis.Client
	through  redis.Scripter // rdb, or pipeline
	pipeline *redis.AutoPipeliner
	session  string
}

func openLua(ctx context.Context, t target) (node, error) {
	l := &lua{rdb: t.client(), session: uuid.NewString()}
	l.through = l.rdb
	for _, script := range []*redis.Script{joinScript, leaveScript} {
		if err := script.Load(ctx, l.rdb).Err(); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// openLuaAutoPipeline sends the commands of all clients in up to eight pipelines at a
// time. A client waits for each of its commands, so that they stay in order.
func openLuaAutoPipeline(ctx context.Context, t target) (node, error) {
	n, err := openLua(ctx, t)
	if err != nil {
		return nil, err
	}
	l := n.(*lua)
	l.pipeline, err = l.rdb.AutoPipelineWithOptions(&redis.AutoPipelineOptions{MaxConcurrentBatches: 8, Unordered: true})
	if err != nil {
		l.close()
		return nil, err
	}
	l.through = l.pipeline
	return l, nil
}

func (l *lua) join(ctx context.Context, id, user string) error {
	entered, err := joinScript.Run(ctx, l.through, []string{usersKey(id)}, user, l.session, room.MaxSeats).Bool()
	if err == nil && !entered {
		return errRoomFull
	}
	return err
}

func (l *lua) leave(ctx context.Context, id, user string) error {
	return leaveScript.Run(ctx, l.through, []string{usersKey(id)}, user).Err()
}

func (l *lua) close() {
	if l.pipeline != nil {
		_ = l.pipeline.Close()
	}
	_ = l.rdb.Close()
}

func luaMembers(ctx context.Context, rdb *redis.Client, id string) ([]string, error) {
	return rdb.HKeys(ctx, usersKey(id)).Result()
}

// sadd asks the least of Redis: one command on a set, without a lock.
type sadd struct{ rdb *redis.Client }

func openSadd(_ context.Context, t target) (node, error) { return &sadd{t.client()}, nil }

func (s *sadd) join(ctx context.Context, room, user string) error {
	return s.rdb.SAdd(ctx, usersKey(room), user).Err()
}

func (s *sadd) leave(ctx context.Context, room, user string) error {
	return s.rdb.SRem(ctx, usersKey(room), user).Err()
}

func (s *sadd) close() { _ = s.rdb.Close() }

func saddMembers(ctx context.Context, rdb *redis.Client, room string) ([]string, error) {
	return rdb.SMembers(ctx, usersKey(room)).Result()
}
