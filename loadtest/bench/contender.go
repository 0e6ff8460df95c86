package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/internal/scratch"
	"roomd/lockmgr/redisconn/pause"
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

// contender is a way to keep the lists of rooms, or to acquire locks. It takes part in a workload if it has the
// function for that.
type contender struct {
	name, about string

	// open returns a node for workloads of rooms. It sends next to nothing.
	open func(context.Context, target) (node, error)

	// locker opens the lock of one node.
	locker func(target) (locker, error)

	// serve starts a server for WebSockets.
	serve opener

	// filler opens the node that puts members into rooms before the measurement. Nil means one of the measured nodes.
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

// serverConfig configures a server, also one in a child.
type serverConfig struct {
	db    *redisurl.DB
	Name  string        // unique in Redis
	Seats int           // seats of each room, without other limits; 0 is a node with roomd's defaults
	Delay time.Duration // of the network, in each direction

	Server, Redis string // for a child: one of servers, and the URL of db
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
	network     string // address where it reaches Redis; "" for Redis' own
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

const (
	articleTTL  = 3 * time.Second
	articlePoll = 5 * time.Millisecond

	// releaseTimeout bounds the release after an action that was cut off.
	releaseTimeout = time.Second
)

//go:embed lua/release.lua
var releaseLua string

var releaseScript = redis.NewScript(releaseLua)

// article is the published lock of the card game: SET NX EX 3 with the room's id and a unique id, drawn once; a spin
// of 5 ms; GET of the list; SET of the changed list, without a check of the lock; a compare-and-delete in Lua.
//
// These are our choices: the list is JSON, because the article does not say how its client stores it; the
// unique id is a UUID, because PHP's uniqid is the time, and may be the same for two callers; a join checks who
// is in the list, while the article's appends blindly; there is a leave; EVALSHA replaces EVAL. Package lab
// follows the article to the letter.
type article struct{ rdb *redis.Client }

func openArticle(ctx context.Context, t target) (node, error) {
	a := article{t.client()}
	return node{
		join: func(ctx context.Context, room, user string) error {
			return a.change(ctx, room, func(users []string) []string {
				if slices.Contains(users, user) {
					return users
				}
				return append(users, user)
			})
		},
		leave: func(ctx context.Context, room, user string) error {
			return a.change(ctx, room, func(users []string) []string {
				return slices.DeleteFunc(users, func(u string) bool { return u == user })
			})
		},
		close: func() { _ = a.rdb.Close() },
	}.opened(releaseScript.Load(ctx, a.rdb).Err())
}

// change runs one action under the room's lock.
func (a article) change(ctx context.Context, room string, fn func([]string) []string) (err error) {
	token := room + ":" + uuid.NewString()
	if err := a.lock(ctx, room, token); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		err = errors.Join(err, releaseScript.Run(ctx, a.rdb, []string{lockKey(room)}, token).Err())
	}()
	users, err := articleMembers(ctx, a.rdb, room)
	if err != nil {
		return err
	}
	return articleFill(ctx, a.rdb, room, fn(users))
}

func (a article) lock(ctx context.Context, room, token string) error {
	args := redis.SetArgs{Mode: "NX", TTL: articleTTL}
	for {
		err := a.rdb.SetArgs(ctx, lockKey(room), token, args).Err()
		if !errors.Is(err, redis.Nil) {
			return err
		}
		if err := pause.For(ctx, articlePoll); err != nil {
			return err
		}
	}
}

// articleFill writes the whole list.
func articleFill(ctx context.Context, rdb *redis.Client, room string, users []string) error {
	text, err := json.Marshal(users)
	if err != nil {
		return err
	}
	return rdb.Set(ctx, usersKey(room), text, 0).Err()
}

func articleMembers(ctx context.Context, rdb *redis.Client, room string) (users []string, err error) {
	text, err := rdb.Get(ctx, usersKey(room)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &users); err != nil {
		return nil, fmt.Errorf("%s: %w", usersKey(room), err)
	}
	return users, nil
}
