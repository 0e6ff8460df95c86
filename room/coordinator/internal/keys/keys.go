// Package keys makes the name of every key and channel that a coordinator uses in Redis, so that all of them begin
// with the deployment's prefix ([Space]). Deployments with different prefixes share a Redis: no name of one equals a
// name of the other, or matches a pattern by which the other searches ([Check]).
//
// Scripts get their names from here. Two extend a name: for wake-ups (lockmgr's lock.lua) and free seats (index.lua).
package keys

import "strings"

// Space makes the names of one deployment. The zero value has no prefix and is not for Redis Cluster.
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

// LockPrefix returns the text before a room's id in the key of its lock. The lock manager adds the hash tag.
func (s Space) LockPrefix() string { return s.Prefix + "LockRoom:" }

// Room returns a room's key of a kind. With * for the id it is a pattern that matches every room's key of that kind.
// On Cluster a room's keys and its lock share a slot.
func (s Space) Room(id, kind string) string {
	return s.Prefix + "Room:" + s.tagged(id) + ":" + kind
}

// tagged returns a room's id, on Cluster as a hash tag.
func (s Space) tagged(id string) string {
	if s.Cluster {
		return "{" + id + "}"
	}
	return id
}

// RoomOf returns the id in a room's key of that kind.
func (s Space) RoomOf(key, kind string) (id string) {
	before, after, _ := strings.Cut(s.Room("*", kind), "*")
	return strings.TrimSuffix(strings.TrimPrefix(key, before), after)
}

// Lease returns the key of a node's lease.
func (s Space) Lease(node string) string { return s.node(node, "") }

// NodeRooms returns the key of the set of rooms where a node may have members.
func (s Space) NodeRooms(node string) string { return s.node(node, ":Rooms") }

// NodeInfo returns the key of a node's report on itself.
func (s Space) NodeInfo(node string) string { return s.node(node, ":Info") }

// Drain returns the key that asks a node to stop.
func (s Space) Drain(node string) string { return s.node(node, ":Drain") }

// Stopped returns a key that exists for a while after a node stopped, but not after it died.
func (s Space) Stopped(node string) string { return s.node(node, ":Stopped") }

// Over returns a key that exists for a while after a node's lease was ended.
func (s Space) Over(node string) string { return s.node(node, ":Over") }

// node returns a key of a node. On Cluster the node's name begins with a hash tag.
func (s Space) node(node, kind string) string { return s.Prefix + "Node:" + node + kind }

// Nodes returns the key of a sorted set of the nodes that may have members, by the end of their leases; it saves a
// search through all keys. On Cluster each hash tag has its own set, in the slot of its nodes.
func (s Space) Nodes(tag string) string {
	if s.Cluster {
		return s.Prefix + "Nodes:" + tag
	}
	return s.Prefix + "Nodes"
}

// Lobby returns a key of the index of rooms. On Cluster these keys share a slot.
func (s Space) Lobby(kind string) string {
	if s.Cluster {
		return s.Prefix + "Lobby:{lobby}:" + kind
	}
	return s.Prefix + "Lobby:" + kind
}

// Feed returns a key of the feed. On Cluster these keys share a slot.
func (s Space) Feed(kind string) string {
	if s.Cluster {
		return s.Prefix + "Feed:{feed}:" + kind
	}
	return s.Prefix + "Feed:" + kind
}

// Timers returns the key of a sorted set of all rooms' timers, by when they are due.
func (s Space) Timers() string { return s.Prefix + "Timers:due" }

// TimersDied returns a key that exists for a while after a dead node's timers were hastened.
func (s Space) TimersDied(node string) string { return s.Prefix + "Timers:died:" + node }
