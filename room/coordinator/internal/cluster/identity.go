package cluster

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/room/coordinator/internal/keys"
)

// Identity is one of a node's names, with the state that belongs to it.
type Identity struct {
	Node string // the name

	rooms roomSet // rooms where it may have members

	heartbeat    atomic.Int64 // number of the last request about the lease or the rooms; see lua/lease.lua
	acknowledged int64        // used by the lease's attempts: the last heartbeat that Redis has had
}

// roomSet is the wanted content of Node:<node>:Rooms. A failover may lose a part of that set, but not the members in
// the rooms, which may be on other masters. Then the node writes the set again. The zero value is empty.
type roomSet struct{ ids sync.Map }

func (s *roomSet) add(ids ...string) {
	for _, id := range ids {
		s.ids.Store(id, nil)
	}
}

func (s *roomSet) remove(id string) { s.ids.Delete(id) }

func (s *roomSet) has(id string) bool {
	_, there := s.ids.Load(id)
	return there
}

func (s *roomSet) size() (n int) {
	for range s.ids.Range {
		n++
	}
	return n
}

func (s *roomSet) all() (ids []string) {
	for id := range s.ids.Range {
		ids = append(ids, id.(string))
	}
	return ids
}

// hashTags has one tag for each sixteenth of a Cluster's hash slots, so they spread over the masters as the slots do.
//
// On a Cluster a node's name begins with one of them. So its lease, the set of its rooms and the list with its name
// are on one master, and are written atomically. If that master is away the node takes a name with another tag.
var hashTags = [...]string{
	"{ma}", "{qp}", "{dj}", "{wz}", "{sb}", "{pv}", "{uh}", "{fx}",
	"{cx}", "{ph}", "{uv}", "{yc}", "{rz}", "{qn}", "{dt}", "{ha}",
}

// HashTags returns the hash tags that a node's name may begin with on Cluster.
func HashTags() []string { return hashTags[:] }

// Lists returns the keys of all lists of nodes.
func Lists(names keys.Space) []string {
	if !names.Cluster {
		return []string{names.Nodes("")}
	}
	all := make([]string, len(hashTags))
	for i, tag := range hashTags {
		all[i] = names.Nodes(tag)
	}
	return all
}

func (l *lease) split(node string) (tag, name string) {
	if !l.store.Cluster {
		return "", node
	}
	end := strings.IndexByte(node, '}') + 1
	return node[:end], node[end:]
}

// keysOf returns the keys of a node's name: its lease, its rooms, and the list that names it. On a Cluster they share
// a hash slot.
func (l *lease) keysOf(who *Identity) []string {
	tag, _ := l.split(who.Node)
	return []string{l.store.Lease(who.Node), l.store.NodeRooms(who.Node), l.store.Nodes(tag)}
}

// withHashTag prefixes a name with a random hash tag on a Cluster.
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
