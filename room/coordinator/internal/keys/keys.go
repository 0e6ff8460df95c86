// Package keys makes the name of every key and channel that a coordinator uses in Redis, so that all of them begin
// with the deployment's prefix ([Space]). Deployments with different prefixes share a Redis: no name of one equals a
// name of the other, or matches a pattern by which the other searches ([Check]).
//
// Scripts get their names from here. One extends a name, for wake-ups (lockmgr's lock.lua).
package keys

import (
	"fmt"
	"strings"

	"roomd/room"
)

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

// Timers returns the key of a sorted set of all rooms' timers, by when a node looks at them next.
func (s Space) Timers() string { return s.Prefix + "Timers:due" }

// TimersDied returns a key that exists for a while after a dead node's timers were hastened.
func (s Space) TimersDied(node string) string { return s.Prefix + "Timers:died:" + node }

// OfRoom returns the names of all keys of a room and its lock.
func (s Space) OfRoom(id string) []string {
	lock := s.LockPrefix() + s.tagged(id)
	return []string{s.Room(id, Users), s.Room(id, Meta), s.Room(id, Log), s.Room(id, Said), lock, lock + ":Queue",
		lock + ":Fence"}
}

// shared returns the keys that name neither a room nor a node, with their types.
func (s Space) shared() map[string]string {
	return map[string]string{
		s.Timers():       "zset",
		s.Lobby("Rooms"): "hash", s.Lobby("Changed"): "zset", s.Lobby("Gone"): "zset", s.Lobby("State"): "hash",
		s.Feed("Entries"): "stream", s.Feed("Rooms"): "hash", s.Feed("Searched"): "string", s.Feed("Readers"): "hash",
	}
}

// Shared returns the keys that all rooms share, except keys of nodes and of seats by labels.
func (s Space) Shared() (names []string) {
	for name := range s.shared() {
		names = append(names, name)
	}
	return names
}

// TypeOf returns the type of a key as Redis names it, judged by the key's name; "" for an unknown name.
func (s Space) TypeOf(key string) string {
	if kind, ok := s.shared()[key]; ok {
		return kind
	}
	for _, of := range []struct{ begins, ends, kind string }{
		{s.LockPrefix(), ":Queue", "zset"},
		{s.LockPrefix(), "", "string"},
		{s.Prefix + "Room:", ":" + Users, "hash"},
		{s.Prefix + "Room:", ":" + Meta, "hash"},
		{s.Prefix + "Room:", ":" + Log, "stream"},
		{s.Prefix + "Room:", ":" + Said, "stream"},
		{s.Prefix + "Nodes", "", "zset"},
		{s.Prefix + "Node:", ":Rooms", "set"},
		{s.Prefix + "Node:", "", "string"},
		{s.Lobby("Free:"), "", "zset"},
		{s.Lobby("Match:"), "", "string"},
	} {
		if strings.HasPrefix(key, of.begins) && strings.HasSuffix(key, of.ends) {
			return of.kind
		}
	}
	return ""
}

// maxPrefix limits a prefix, in bytes.
const maxPrefix = 64

// words are the first words of all keys after the prefix. Node stands for Nodes, too.
var words = []string{"LockRoom", "Room", "Node", "Lobby", "Timers", "Feed"}

// Check returns a [room.InvalidError] for field KeyPrefix unless prefix is valid or empty.
//
// A prefix ends with a colon, and none of its parts between colons begins with one of the words. So after the prefix
// a name continues with a word, and a longer prefix does not: no two Spaces share a name, even if one prefix is empty
// or begins the other. Searches and ACLs have the prefix in patterns, so it has no signs of patterns, and no braces.
func Check(prefix string) error {
	if problem := problemOf(prefix); problem != "" {
		return &room.InvalidError{Field: "KeyPrefix", Problem: fmt.Sprintf("is %.100q, it %s", prefix, problem)}
	}
	return nil
}

func problemOf(prefix string) string {
	forbidden := strings.IndexFunc(prefix, isForbidden)
	switch {
	case prefix == "":
		return ""
	case len(prefix) > maxPrefix:
		return fmt.Sprintf("must be at most %d characters long, not %d", maxPrefix, len(prefix))
	case forbidden >= 0:
		return fmt.Sprintf("may hold only A-Z a-z 0-9 . _ - and colons, not %q", []rune(prefix[forbidden:])[0])
	case !strings.HasSuffix(prefix, ":"):
		return fmt.Sprintf("must end with a colon, such as %q", prefix+":")
	}
	for part := range strings.SplitSeq(prefix, ":") {
		for _, word := range words {
			if strings.HasPrefix(part, word) {
				return fmt.Sprintf("may not have %q, which begins with a word of roomd's own names: %s", part,
					strings.Join(words, ", "))
			}
		}
	}
	return ""
}

func isForbidden(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:", r))
}
