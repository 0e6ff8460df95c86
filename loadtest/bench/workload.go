package bench

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/report"
	"roomd/room"
)

// kind is the activity of a workload's clients.
type kind int

const (
	ofRooms   kind = iota // they join and leave a room through nodes in this process
	ofLocks               // they acquire and release random locks
	ofSockets             // half of them join and leave through WebSockets, the others get the events
	ofMemory              // they connect to a server in another process, and send nothing
)

// Groups of workloads. Their workloads run only if they, or their group, are named.
const (
	networkName = "network"
	locksName   = "locks"
	memoryName  = "memory"
)

const (
	networkDelay = 250 * time.Microsecond
	roomSize     = 10 // clients per room in the workloads of memory

	// maxConnections limits the connections of one node to Redis.
	maxConnections = 512
)

// workloads are in the order of measurement.
var workloads = []workload{
	{name: "lone", about: "one client, one room", clients: 1, rooms: 1, nodes: 1},
	{name: "hot-room", about: "128 clients, one room", clients: 128, rooms: 1, nodes: 1},
	{name: "1000-rooms-128", about: "128 clients, 1,000 rooms", clients: 128, rooms: 1000, nodes: 1},
	{name: "1000-rooms-2000", about: "2,000 clients, 1,000 rooms", clients: 2000, rooms: 1000, nodes: 1},
	{name: "four-nodes-one-room", about: "four nodes, 128 clients, one room", clients: 128, rooms: 1, nodes: 4},
	{name: "four-nodes-16-rooms", about: "four nodes, 128 clients, 16 rooms", clients: 128, rooms: 16, nodes: 4},
	{name: "members-10", about: "64 clients, 16 rooms, 10 members in each", clients: 64, rooms: 16, nodes: 1,
		members: 10},
	{name: "members-100", about: "64 clients, 16 rooms, 100 members in each", clients: 64, rooms: 16, nodes: 1,
		members: 100},
	{name: "members-1000", about: "64 clients, 16 rooms, 1,000 members in each", clients: 64, rooms: 16, nodes: 1,
		members: 1000},
	{name: "members-10000", about: "64 clients, 16 rooms, 10,000 members in each", clients: 64, rooms: 16, nodes: 1,
		members: 10_000},

	{name: "websocket", about: "1,000 WebSockets at 250 tables of four, where two come and go and two stay and get the events", kind: ofSockets, clients: 1000, rooms: 250, nodes: 1},
	{name: "websocket-two-nodes", about: "the same with two nodes: one of those who come and go is at either, and one of those who stay", kind: ofSockets, clients: 1000, rooms: 250, nodes: 2},
	{name: "websocket-paced", about: "as websocket, but 2,000 actions/s: who comes and goes acts four times a second",
		kind: ofSockets, clients: 1000, rooms: 250, nodes: 1, pace: 250 * time.Millisecond},

	{name: "network-lone", about: "one client, one room; 0.25 ms each way between nodes and Redis",
		group: networkName, clients: 1, rooms: 1, nodes: 1, delay: networkDelay},
	{name: "network-hot-room", about: "128 clients, one room; 0.25 ms each way", group: networkName, clients: 128,
		rooms: 1, nodes: 1, delay: networkDelay},
	{name: "network-1000-rooms-128", about: "128 clients, 1,000 rooms; 0.25 ms each way", group: networkName,
		clients: 128, rooms: 1000, nodes: 1, delay: networkDelay},
	{name: "network-1000-rooms", about: "1,000 rooms of four, 4,000 clients; 0.25 ms each way", group: networkName,
		clients: 4000, rooms: 1000, nodes: 1, delay: networkDelay},

	{name: "locks-lone", about: "one client, one lock", group: locksName, kind: ofLocks, clients: 1, rooms: 1,
		nodes: 1},
	{name: "locks-one-node", about: "128 clients, one lock", group: locksName, kind: ofLocks, clients: 128, rooms: 1,
		nodes: 1},
	{name: "locks-four-nodes", about: "four nodes, 128 clients, one lock", group: locksName, kind: ofLocks,
		clients: 128, rooms: 1, nodes: 4},
	{name: "locks-1000", about: "128 clients, 1,000 locks, each acquire takes one of them at random",
		group: locksName, kind: ofLocks, clients: 128, rooms: 1000, nodes: 1},

	{name: "memory-idle", about: "a node with roomd's defaults in a process of its own; its clients (--connections) are connected and quiet", group: memoryName, kind: ofMemory, nodes: 1},
	{name: "memory-room", about: "the same, each client in a room of ten; the goal is 12 KiB freed and one goroutine",
		group: memoryName, kind: ofMemory, nodes: 1, join: true},
}

// groups describes the groups of workloads.
var groups = []report.Fact{
	{Name: networkName, Text: "all with a delay between nodes and Redis, as between two machines of a data center"},
	{Name: locksName, Text: "all with locks: clients take a lock and give it back"},
	{Name: memoryName, Text: "all that say what a connection costs in memory"},
}

// workload describes the clients and their rooms or locks.
type workload struct {
	name, about string
	group       string // "" if it runs without being named
	kind        kind
	clients     int
	rooms       int // or locks
	nodes       int // the clients are spread over them
	members     int // further members of each room

	pace  time.Duration // average pause of a client between two actions
	delay time.Duration // delay between a node and Redis, in each direction
	join  bool          // for memory: each client is in a room
}

// references returns the contenders that others are compared with.
func (w workload) references() []string {
	return [][]string{ofRooms: {articleName, saddName}, ofLocks: {lockmgrName}, ofSockets: {echoName},
		ofMemory: nil}[w.kind]
}

// connections returns how many connections each node has: one per client, so that none waits, up to maxConnections.
func (w workload) connections() int { return min(w.perNode(), maxConnections) }

// perNode returns the largest number of clients of a node.
func (w workload) perNode() int { return (w.clients + w.nodes - 1) / w.nodes }

// node returns the number of the node that a client acts through.
func (w workload) node(client int) int { return client % w.nodes }

// room returns the number of a client's room. Each room has clients on all nodes, except in workloads of
// memory, where consecutive clients share a room.
func (w workload) room(client int) int {
	if w.kind == ofMemory {
		return client / roomSize % w.rooms
	}
	return client / w.nodes % w.rooms
}

// names returns the ids of the rooms with clients, or of the locks.
func (w workload) names(prefix string) []string {
	n := w.rooms
	if w.kind != ofLocks {
		n = min(n, w.perNode())
	}
	return numbered(prefix, n)
}

// residents returns the users who stay in each room.
func (w workload) residents() []string { return numbered("member-", w.members) }

func numbered(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = prefix + strconv.Itoa(i)
	}
	return list
}

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
