package bench

import (
	"context"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/redisserver"
	"roomd/room/coordinator"
)

// Contenders that the reports name. The others are compared to the first two.
const (
	articleName = "article"
	saddName    = "sadd"
	roomdName   = "roomd" // the line that readers look for
)

// contenders are measured in this order. Each setting of roomd is a line.
var contenders = []contender{
	{name: articleName, open: openArticle, members: articleMembers},
	{name: saddName, open: openSadd, members: saddMembers},
	{name: "lua", open: openLua, members: luaMembers},
	{name: "lua+ap", open: openLuaAutoPipeline, members: luaMembers},
	{name: "roomd-1", open: roomd(coordinator.Options{MaxBatch: 1}), filler: roomd(coordinator.Options{}), members: roomdMembers},
	{name: roomdName, open: roomd(coordinator.Options{}), members: roomdMembers},
}

// contender is one way to keep who is in which room.
type contender struct {
	name string

	// open returns a node, which has sent next to nothing.
	open func(context.Context, target) (node, error)

	// filler opens the node that fills the rooms before the measurement. Nil means one
	// of the measured nodes.
	filler func(context.Context, target) (node, error)

	// members reads a room's list from Redis. It does not use a node, so that a mistake
	// there cannot hide itself.
	members func(ctx context.Context, rdb *redis.Client, room string) ([]string, error)
}

// node is a contender as one server would use it. It is safe for concurrent use.
// An action that fails may have happened or not. Joining again does no harm.
type node interface {
	join(ctx context.Context, room, user string) error
	leave(ctx context.Context, room, user string) error

	// fill puts the users into a room that nobody else uses yet.
	fill(ctx context.Context, room string, users []string) error

	// close is called when all actions have ended.
	close()
}

// target is where a node works.
type target struct {
	redis       *redisserver.Redis
	name        string // of the node; unique, with the run's prefix
	connections int
}

func (t target) client() *redis.Client { return t.redis.NewClient(t.connections) }

// The article's keys. Every contender uses them in its own rooms.
func lockKey(room string) string  { return "LockRoom:" + room }
func usersKey(room string) string { return "Room:" + room + ":Users" }
