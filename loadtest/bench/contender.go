package bench

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/redisserver"
	"roomd/room/coordinator"
)

// Contenders that the others are compared with, and the line that readers look for.
const (
	articleName = "article"
	saddName    = "sadd"
	roomdName   = "roomd"
	lockmgrName = "lockmgr"
)

// contenders are measured in this order. Those with a locker compete in the workloads of locks, the others
// in those of rooms.
var contenders = []contender{
	{name: articleName, open: openArticle, members: articleMembers,
		about: "the published lock: SET NX EX 3 with a spin of 5 ms, GET, change, SET, release by script; that the list is JSON and nobody is in it twice are our choices"},
	{name: saddName, open: openSadd, members: saddMembers,
		about: "one SADD or SREM, no lock: nobody learns of a change, no list has a version, nothing keeps a stale writer out"},
	{name: "lua", open: openLua, members: luaMembers, about: "one script that checks the capacity and writes, no lock"},
	{name: "lua+ap", open: openLuaAutoPipeline, members: luaMembers, about: "the same through go-redis' AutoPipeline"},
	{name: "roomd-1", open: roomd(coordinator.Options{MaxBatch: 1}), filler: roomd(coordinator.Options{}), members: roomdMembers, about: "roomd with one action in a hold"},
	{name: roomdName, open: roomd(coordinator.Options{}), members: roomdMembers, about: "roomd with its defaults"},
	{name: lockmgrName, locker: lockmgrLocker(false), about: "roomd's lock: waiters queue in Redis and are woken"},
	{name: "lockmgr+ap", locker: lockmgrLocker(true), about: "the same; requests for different locks share round trips"},
	{name: "redislock", locker: openRedislock, about: "bsm/redislock: waiters ask again at even intervals"},
	{name: "redsync", locker: openRedsync, about: "redsync with a single Redis: the same, and a waiter makes sure after each refusal that it left nothing behind"},
	{name: "rueidislock", locker: openRueidislock, about: "rueidislock: waiters hear of a release by client tracking"},
}

// contender is one way to keep who is in which room, or one way to take locks.
type contender struct {
	name, about string

	// open returns a node, which has sent next to nothing.
	open func(context.Context, target) (node, error)

	// filler opens the node that fills the rooms before the measurement. Nil means one
	// of the measured nodes.
	filler func(context.Context, target) (node, error)

	// members reads a room's list from Redis. It does not use a node, so that a mistake
	// there cannot hide itself.
	members func(ctx context.Context, rdb *redis.Client, room string) ([]string, error)

	// locker opens the lock of one node. Nil means a contender for rooms.
	locker func(target) (locker, error)
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

// locker is a contender for locks as one server would use it. It is safe for concurrent use.
type locker interface {
	// acquire takes the lock. The hold does not end with ctx.
	acquire(ctx context.Context, key string) (release func() error, err error)

	// close is called when all locks are released.
	close()
}

// target is where a node works.
type target struct {
	redis       *redisserver.Redis
	name        string // of the node; unique, with the run's prefix
	connections int
	delay       time.Duration // between the node and Redis, each way; see slow
}

func (t target) client() *redis.Client {
	client := t.redis.NewClient(t.connections)
	if t.delay == 0 {
		return client
	}
	defer client.Close() // it never connected
	opts := *client.Options()
	opts.Dialer = slow(opts.Dialer, t.delay)
	return redis.NewClient(&opts)
}

// The article's keys. Every contender uses them in its own rooms.
func lockKey(room string) string  { return "LockRoom:" + room }
func usersKey(room string) string { return "Room:" + room + ":Users" }
