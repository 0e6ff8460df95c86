package bench

import (
	"fmt"
	"strconv"
	"time"
)

// maxConnections is how many connections to Redis one node has at most.
const maxConnections = 512

// workloads are measured in this order, before the one through WebSockets.
var workloads = []workload{
	{name: "lone", about: "one client, one room", clients: 1, rooms: 1, nodes: 1},
	{name: "hot-room", about: "128 clients, one room", clients: 128, rooms: 1, nodes: 1},
	{name: "1000-rooms-128", about: "128 clients, 1,000 rooms", clients: 128, rooms: 1000, nodes: 1},
	{name: "1000-rooms-2000", about: "2,000 clients, 1,000 rooms", clients: 2000, rooms: 1000, nodes: 1},
	{name: "four-nodes-one-room", about: "four nodes, 128 clients, one room", clients: 128, rooms: 1, nodes: 4},
	{name: "four-nodes-16-rooms", about: "four nodes, 128 clients, 16 rooms", clients: 128, rooms: 16, nodes: 4},
	{name: "members-10", about: "64 clients, 16 rooms, 10 members in each", clients: 64, rooms: 16, nodes: 1, members: 10},
	{name: "members-100", about: "64 clients, 16 rooms, 100 members in each", clients: 64, rooms: 16, nodes: 1, members: 100},
	{name: "members-1000", about: "64 clients, 16 rooms, 1,000 members in each", clients: 64, rooms: 16, nodes: 1, members: 1000},
	{name: "members-10000", about: "64 clients, 16 rooms, 10,000 members in each", clients: 64, rooms: 16, nodes: 1, members: 10_000},

	{name: "network-lone", about: "one client, one room; 0.25 ms each way between nodes and Redis", clients: 1, rooms: 1, nodes: 1, delay: networkDelay},
	{name: "network-hot-room", about: "128 clients, one room; 0.25 ms each way", clients: 128, rooms: 1, nodes: 1, delay: networkDelay},
	{name: "network-1000-rooms-128", about: "128 clients, 1,000 rooms; 0.25 ms each way", clients: 128, rooms: 1000, nodes: 1, delay: networkDelay},
	{name: "network-1000-rooms", about: "1,000 rooms of four, 4,000 clients; 0.25 ms each way", clients: 4000, rooms: 1000, nodes: 1, delay: networkDelay},

	{name: "locks-lone", about: "one client, one lock", clients: 1, rooms: 1, nodes: 1, locks: true},
	{name: "locks-one-node", about: "128 clients, one lock", clients: 128, rooms: 1, nodes: 1, locks: true},
	{name: "locks-four-nodes", about: "four nodes, 128 clients, one lock", clients: 128, rooms: 1, nodes: 4, locks: true},
	{name: "locks-1000", about: "128 clients, 1,000 locks, each acquire takes one of them at random", clients: 128, rooms: 1000, nodes: 1, locks: true},
}

// workload is who acts on which rooms.
type workload struct {
	name, about string
	clients     int
	rooms       int // or locks
	nodes       int // over which the clients are spread
	members     int // of each room, besides the clients

	// pace is how long a client waits between two actions, on average: not at all if that is 0. Only
	// those with WebSockets can.
	pace time.Duration

	// locks means that the clients take locks and give them back, and there are no rooms.
	locks bool

	// delay is how long everything is under way between a node and Redis, each way, beside what the machine needs.
	delay time.Duration
}

// groups are names that stand for several workloads, which run only if they or the group are named.
var groups = []string{locksName, networkName}

// group returns the name that stands for the workload and others, "" if it runs by itself.
func (w workload) group() string {
	switch {
	case w.locks:
		return locksName
	case w.delay > 0:
		return networkName
	}
	return ""
}

// references returns the contenders that the others are compared with.
func (w workload) references() []string {
	if w.locks {
		return []string{lockmgrName}
	}
	return []string{articleName, saddName}
}

// connections returns how many connections each node has: one for each of its clients, so
// that nobody waits for one, up to maxConnections.
func (w workload) connections() int {
	return min((w.clients+w.nodes-1)/w.nodes, maxConnections)
}

// node returns the number of the node that a client acts through.
func (w workload) node(client int) int { return client % w.nodes }

// room returns the number of a client's room. The clients of one room are on all
// nodes.
func (w workload) room(client int) int { return client / w.nodes % w.rooms }

// names returns the ids of the rooms with clients, or of the locks.
func (w workload) names(prefix string) []string {
	n := w.rooms
	if !w.locks {
		n = min(n, (w.clients+w.nodes-1)/w.nodes)
	}
	list := make([]string, n)
	for i := range list {
		list[i] = prefix + strconv.Itoa(i)
	}
	return list
}

// residents returns the users who are in each room all the time.
func (w workload) residents() []string {
	list := make([]string, w.members)
	for i := range list {
		list[i] = fmt.Sprintf("member-%d", i)
	}
	return list
}

// user returns a client's name.
func user(client int) string { return fmt.Sprintf("player-%d", client) }
