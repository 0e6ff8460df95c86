// Package keys makes the name of every key and channel that a coordinator uses in Redis.
//
// It is the only place that does, so that all names of a deployment begin with its prefix ([Space]). Two deployments
// share a Redis if they have different prefixes: no name of one is a name of the other, or fits a pattern by which
// the other searches ([Check]).
//
// Scripts get all names from here, or make longer ones of them: the channel of a lock's wake-ups (lockmgr's
// lock.lua), and the free seats of the lobby (index.lua).
package keys

import "strings"

// Space makes the names of one deployment. The zero value is that without a prefix, on a Redis that is no Cluster.
type Space struct {
	Prefix  string // of all names
	Cluster bool   // names have hash tags
}

// Kinds of a room's keys. Events is a channel.
const (
	Users  = "Users"
	Meta   = "Meta"
	Log    = "Log"
	Said   = "Said"
	Events = "Events"
)

// LockPrefix returns what is before a room's id in the key of its lock. The lock manager adds the hash tag.
func (s Space) LockPrefix() string { return s.Prefix + "LockRoom:" }

// Room returns a room's key of a kind; with * for the id, the pattern of all of that kind. On Cluster a room's keys
// and its lock share a slot.
func (s Space) Room(id, kind string) string {
	return s.Prefix + "Room:" + s.tagged(id) + ":" + kind
}

// tagged returns a room's id as the names of its keys have it.
func (s Space) tagged(id string) string {
	if s.Cluster {
		return "{" + id + "}"
	}
	return id
}

// RoomOf returns the id of the room that has a key of that kind.
func (s Space) RoomOf(key, kind string) (id string) {
	before, after, _ := strings.Cut(s.Room("*", kind), "*")
	return strings.TrimSuffix(strings.TrimPrefix(key, before), after)
}

// Lease has a node's lease.
func (s Space) Lease(node string) string { return s.node(node, "") }

// NodeRooms has the rooms where a node may have members.
func (s Space) NodeRooms(node string) string { return s.node(node, ":Rooms") }

// NodeInfo has what a node says of itself.
func (s Space) NodeInfo(node string) string { return s.node(node, ":Info") }

// Drain exists if a node is to stop.
func (s Space) Drain(node string) string { return s.node(node, ":Drain") }

// Stopped exists for a while after a node has stopped, and not after it has died.
func (s Space) Stopped(node string) string { return s.node(node, ":Stopped") }

// Over exists for a while after a node's lease was ended.
func (s Space) Over(node string) string { return s.node(node, ":Over") }

// node returns a key of a node. On Cluster its name begins with a hash tag.
func (s Space) node(node, kind string) string { return s.Prefix + "Node:" + node + kind }

// Nodes is a sorted set of the nodes that may have members, by the time when their leases end. It saves searching all
// keys for them. On Cluster each hash tag has one, in the slot of its nodes.
func (s Space) Nodes(tag string) string {
	if s.Cluster {
		return s.Prefix + "Nodes:" + tag
	}
	return s.Prefix + "Nodes"
}

// Lobby returns a key of the index of rooms. On Cluster they share a slot.
func (s Space) Lobby(kind string) string {
	if s.Cluster {
		return s.Prefix + "Lobby:{lobby}:" + kind
	}
	return s.Prefix + "Lobby:" + kind
}

// Feed returns a key of the feed. On Cluster they share a slot.
func (s Space) Feed(kind string) string {
	if s.Cluster {
		return s.Prefix + "Feed:{feed}:" + kind
	}
	return s.Prefix + "Feed:" + kind
}

// Timers is a sorted set of the timers of all rooms, by when they are due.
func (s Space) Timers() string { return s.Prefix + "Timers:due" }

// TimersDied exists for a while after somebody has hastened the timers of a node that has died.
func (s Space) TimersDied(node string) string { return s.Prefix + "Timers:died:" + node }
