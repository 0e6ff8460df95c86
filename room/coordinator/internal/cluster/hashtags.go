package cluster

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"roomd/lockmgr/redisconn"
)

// hashTags are one in each sixteenth of the slots of a Redis Cluster: they are
// spread over the masters as the slots are.
//
// A node's name on Cluster begins with one. So its lease, the set of its rooms
// and the list of nodes that has it are on one master, and are written in one step.
// A node whose hash slot is away takes a new name, with another one.
var hashTags = [...]string{
	"{ma}", "{qp}", "{dj}", "{wz}", "{sb}", "{pv}", "{uh}", "{fx}",
	"{cx}", "{ph}", "{uv}", "{yc}", "{rz}", "{qn}", "{dt}", "{ha}",
}

// HashTags returns the hash tags that a node's name may begin with on Cluster.
func HashTags() []string { return hashTags[:] }

// ListKey is a sorted set of the nodes that may have members, by the time when their leases
// end. It saves searching all keys for them. On Cluster each hash tag has one; see [Lists].
const ListKey = "Nodes"

// LeaseKey has a node's lease, and RoomsKey the rooms where it may have members.
func LeaseKey(node string) string { return "Node:" + node }
func RoomsKey(node string) string { return "Node:" + node + ":Rooms" }

// InfoKey has what a node says of itself, and DrainKey exists if it is to stop.
func InfoKey(node string) string  { return "Node:" + node + ":Info" }
func DrainKey(node string) string { return "Node:" + node + ":Drain" }

// StoppedKey exists for a while after a node has stopped, and not after it has died.
func StoppedKey(node string) string { return "Node:" + node + ":Stopped" }

// OverKey exists for a while after a node's lease was ended.
func OverKey(node string) string { return "Node:" + node + ":Over" }

// Lists returns the keys of all lists of nodes.
func Lists(cluster bool) []string {
	if !cluster {
		return []string{ListKey}
	}
	keys := make([]string, len(hashTags))
	for i, tag := range hashTags {
		keys[i] = ListKey + ":" + tag
	}
	return keys
}

// split returns the hash tag and the rest of a node's name.
func (l *lease) split(node string) (tag, name string) {
	if !l.store.Cluster {
		return "", node
	}
	end := strings.IndexByte(node, '}') + 1
	return node[:end], node[end:]
}

// keysOf returns the keys of a lease. On Cluster they share a slot.
func (l *lease) keysOf(who *Identity) []string {
	list := ListKey
	if tag, _ := l.split(who.Node); tag != "" {
		list += ":" + tag
	}
	return []string{LeaseKey(who.Node), RoomsKey(who.Node), list}
}

// withHashTag puts a hash tag chosen at random before a name, on Cluster.
func withHashTag(name string, cluster bool) string {
	if cluster {
		return hashTags[rand.IntN(len(hashTags))] + name
	}
	return name
}

func (l *lease) masterOf(ctx context.Context, tag string) string {
	ctx, cancel := l.attempt(ctx, time.Time{})
	defer cancel()
	return redisconn.MasterOf(ctx, l.store.Client, tag)
}
