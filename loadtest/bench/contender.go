package bench

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/internal/scratch"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room/coordinator"
)

// Contenders that the others are compared with.
const (
	articleName = "article"
	saddName    = "sadd"
	echoName    = "echo"
	roomdName   = "roomd"
	lockmgrName = "lockmgr"
)

// contenders are in the order of measurement.
var contenders = []contender{
	{name: articleName, open: openArticle, fill: articleFill, members: articleMembers,
		about: "the published lock: SET NX EX 3 with a spin of 5 ms, GET, change, SET, release by script; that the list is JSON and nobody is in it twice are our choices"},
	{name: saddName, open: openSadd, members: saddMembers,
		about: "one SADD or SREM, no lock: nobody learns of a change, no list has a version, nothing keeps a stale writer out"},
	{name: "lua", open: openLua, members: hashMembers,
		about: "one script that checks the capacity and writes, no lock"},
	{name: "lua+ap", open: openLuaAutoPipeline, members: hashMembers, about: "the same through go-redis' AutoPipeline"},
	{name: "roomd-1", open: roomd(coordinator.Options{MaxBatch: 1}), filler: roomd(coordinator.Options{}),
		members: hashMembers, about: "roomd with one action in a hold"},
	{name: echoName, serve: openEcho, about: "a bare gorilla/websocket server that sends each frame back: what sockets and clients cost alone"},
	{name: roomdName, open: roomd(coordinator.Options{}), serve: openNode, members: hashMembers,
		about: "roomd with its defaults"},
	{name: lockmgrName, locker: lockmgrLocker(false), about: "roomd's lock: waiters queue in Redis and are woken"},
	{name: "lockmgr+ap", locker: lockmgrLocker(true),
		about: "the same; requests for different locks share round trips"},
	{name: "redislock", locker: openRedislock, about: "bsm/redislock: waiters ask again at even intervals"},
	{name: "redsync", locker: openRedsync, about: "redsync with a single Redis: the same, and a waiter makes sure after each refusal that it left nothing behind"},
	{name: "rueidislock", locker: openRueidislock,
		about: "rueidislock: waiters hear of a release by client tracking; not on the embedded Redis"},
}

// contender is a way to keep the lists of rooms, or to acquire locks. It takes part in the workloads for which
// it has the function.
type contender struct {
	name, about string

	// open returns a node for workloads of rooms. It sends next to nothing.
	open func(context.Context, target) (node, error)

	// locker opens the lock of one node.
	locker func(target) (locker, error)

	// serve starts a server for WebSockets.
	serve opener

	// filler opens the node that puts members into rooms before the measurement. Nil means one of the measured
	// nodes.
	filler func(context.Context, target) (node, error)

	// fill puts members into a room instead of a filler. Nil means that they join.
	fill func(ctx context.Context, rdb *redis.Client, room string, users []string) error

	// members reads a room's list from Redis. It does not use a node, so that a mistake there cannot hide. Nil
	// means that there are no lists.
	members func(ctx context.Context, rdb *redis.Client, room string) ([]string, error)
}

// competes reports whether the contender takes part in workloads of a kind.
func (c contender) competes(k kind) bool {
	return [...]bool{ofRooms: c.open != nil, ofLocks: c.locker != nil, ofSockets: c.serve != nil,
		ofMemory: c.serve != nil}[k]
}

// node is a contender as one server would use it. join and leave are safe for concurrent use. An action that
// fails may have had its effect. A second join does no harm.
type node struct {
	join, leave func(ctx context.Context, room, user string) error

	// close is called when all actions have ended.
	close func()
}

// opened returns n, and closes it if err is not nil.
func (n node) opened(err error) (node, error) {
	if err != nil {
		n.close()
	}
	return n, err
}

// opener starts a server.
type opener func(context.Context, serverConfig) (server, error)

type serverConfig struct {
	db    *redisurl.DB
	name  string        // unique in Redis
	seats int           // seats of each room, without other limits; 0 is a node with roomd's defaults
	delay time.Duration // of the network, in each direction
}

// server is a server for clients.
type server interface {
	URL() string
	Connections() int // number of open connections
	Close()
}

// target is the environment of a node.
type target struct {
	redis       *scratch.Redis
	name        string // unique name of the node, with the run's prefix
	connections int
	network     string // address through which it reaches Redis; "" for Redis' own
}

func (t target) client() *redis.Client {
	client := t.redis.NewClient(t.connections)
	if t.network == "" {
		return client
	}
	defer client.Close() // it never connected
	opts := *client.Options()
	opts.TLSConfig = nil // TLS ends at the network
	opts.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", t.network)
	}
	return redis.NewClient(&opts)
}

// The article's keys. Every contender uses them, in rooms of its own.
func lockKey(room string) string  { return "LockRoom:" + room }
func usersKey(room string) string { return "Room:" + room + ":Users" }
