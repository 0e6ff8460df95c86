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

// List schedules the nodes of a room's members to be listed again, so that their members are removed if they are
// dead. Call it for a room that begins a new epoch because Redis lost something: Redis may have the members and not
// the records. That happens if a node commits after the loss of its lease and before noticing the loss, and Redis
// then restarts from a copy made in between.
func (n *Node) List(r *room.Room) {
	who, _ := n.lease.holder()
	n.unlisted.mu.Lock()
	defer n.unlisted.mu.Unlock()
	for _, m := range r.Members() {
		list := n.lease.keysOf(&Identity{Node: m.Node})[2]
		if m.Node == who.Node || n.unlisted.rooms[m.Node][r.ID] || !slices.Contains(Lists(n.store.Space), list) {
			continue
		}
		if n.unlisted.rooms == nil {
			n.unlisted.rooms = make(map[string]map[string]bool)
		}
		if n.unlisted.rooms[m.Node] == nil {
			n.unlisted.rooms[m.Node] = make(map[string]bool)
		}
		n.unlisted.rooms[m.Node][r.ID] = true
	}
}

// listUnlisted writes the records that List collected. Failures are kept for the next call.
func (n *Node) listUnlisted(ctx context.Context) error {
	n.unlisted.mu.Lock()
	all := n.unlisted.rooms
	n.unlisted.rooms = nil
	n.unlisted.mu.Unlock()
	var failed []error
	for node, rooms := range all {
		if err := n.list(ctx, node, slices.Collect(maps.Keys(rooms))); err != nil {
			failed = append(failed, fmt.Errorf("node %s: %w", node, err))
			continue
		}
		delete(all, node)
	}
	if len(all) > 0 {
		n.unlisted.mu.Lock()
		defer n.unlisted.mu.Unlock()
		for node, rooms := range n.unlisted.rooms {
			if all[node] == nil {
				all[node] = rooms
			}
			maps.Copy(all[node], rooms)
		}
		n.unlisted.rooms = all
	}
	return errors.Join(failed...)
}

func (n *Node) list(ctx context.Context, node string, rooms []string) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Settings.NodeTTL)
	defer cancel()
	keys := n.lease.keysOf(&Identity{Node: node})[1:]
	for chunk := range slices.Chunk(rooms, listChunk) {
		args := []any{node}
		for _, id := range chunk {
			args = append(args, id)
		}
		if err := n.store.RunPlain(ctx, ListScript, keys, args...).Err(); err != nil {
			return err
		}
	}
	return nil
}
