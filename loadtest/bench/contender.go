package bench

import (
	"context"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/redisserver"
	"roomd/room"
)

// Those that the others are compared with.
const (
	articleName = "article"
	saddName    = "sadd"
)

// contenders are measured in this order. One that is optional only takes part if
// it is asked for by name. Each setting of roomd's is a line.
var contenders = []contender{
	{name: articleName, open: openArticle, members: articleMembers},
	{name: saddName, open: openSadd, members: saddMembers},
	{name: "lua", open: openLua, members: luaMembers},
	{name: "lua+ap", open: openLuaAutoPipeline, members: luaMembers},
	{name: "roomd-1", open: roomd(room.Options{MaxBatch: 1}), filler: roomd(room.Options{}), members: roomdMembers},
	{name: "roomd-elided", optional: true, open: roomd(room.Options{ElideLock: true}), members: roomdMembers},
	{name: "roomd", open: roomd(room.Options{}), members: roomdMembers},
}

// contender is one way to keep who is in which room.
type contender struct {
	name     string
	optional bool

	// open returns a node that has sent nothing yet, or next to nothing.
	open func(context.Context, target) (node, error)

	// filler opens the node that fills the rooms before the measurement, nil if
	// one that is measured may as well.
	filler func(context.Context, target) (node, error)

	// members reads a room's list from Redis, and not through a node, whose
	// mistakes would then be its own alibi.
	members func(ctx context.Context, rdb *redis.Client, room string) ([]string, error)
}

// node is a contender as one server would use it. It is safe for concurrent use.
// An action that fails may have happened or not. Joining again does no harm.
type node interface {
	join(ctx context.Context, room, user string) error
	leave(ctx context.Context, room, user string) error

	// fill lets the users into a room that nobody else uses yet.
	fill(ctx context.Context, room string, users []string) error

	// close is called when all actions have ended.
	close()
}

// target is what a node is given.
type target struct {
	redis       *redisserver.Redis
	name        string // of the node, unlike any other's, with the run's prefix
	connections int
}

func (t target) client() *redis.Client { return t.redis.NewClient(t.connections) }

// The article's keys, which every contender uses in its own rooms.
func lockKey(room string) string  { return "LockRoom:" + room }
func usersKey(room string) string { return "Room:" + room + ":Users" }
