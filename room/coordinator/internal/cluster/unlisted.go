package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/room"
)

var (
	//go:embed lua/lease_list.lua
	listLua string

	// ListScript adds a node to those that may have members.
	ListScript = redis.NewScript(listLua)
)

// unlisted collects nodes whose records Redis may have lost, with their rooms; without records nobody would remove
// their members. The zero value is empty.
type unlisted struct {
	mu    sync.Mutex
	rooms map[string]map[string]bool // guarded by mu: by node
}

func (u *unlisted) add(node, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rooms == nil {
		u.rooms = make(map[string]map[string]bool)
	}
	if u.rooms[node] == nil {
		u.rooms[node] = make(map[string]bool)
	}
	u.rooms[node][id] = true
}

// List schedules the nodes of a room's members to be listed again, so that their members are removed if they are dead.
// Call it for a room that begins a new epoch because Redis lost something: Redis may have the members but not the
// records, for example if it restarts from a copy made after a node lost its lease and before the node noticed.
func (n *Node) List(r *room.Room) {
	for _, m := range r.Members() {
		list := n.lease.keysOf(&Identity{Node: m.Node})[2]
		if m.Node != "" && m.Node != n.Name() && slices.Contains(Lists(n.store.Space), list) {
			n.unlisted.add(m.Node, r.ID)
		}
	}
}

// listUnlisted writes the records that List collected. It keeps those that it could not write for the next call.
func (n *Node) listUnlisted(ctx context.Context) error {
	n.unlisted.mu.Lock()
	all := n.unlisted.rooms
	n.unlisted.rooms = nil
	n.unlisted.mu.Unlock()
	var failed []error
	for node, rooms := range all {
		if err := n.lease.list(ctx, node, slices.Collect(maps.Keys(rooms))); err != nil {
			failed = append(failed, fmt.Errorf("node %s: %w", node, err))
			for id := range rooms {
				n.unlisted.add(node, id)
			}
		}
	}
	return errors.Join(failed...)
}

// list adds a node and its rooms to the records.
func (l *lease) list(ctx context.Context, node string, rooms []string) error {
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	keys := l.keysOf(&Identity{Node: node})[1:]
	for chunk := range slices.Chunk(rooms, listChunk) {
		args := []any{node}
		for _, id := range chunk {
			args = append(args, id)
		}
		if err := l.store.RunPlain(ctx, ListScript, keys, args...).Err(); err != nil {
			return err
		}
	}
	return nil
}
