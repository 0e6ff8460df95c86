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

	// ListScript puts a node among those that may have members.
	ListScript = redis.NewScript(listLua)
)

// unlisted are the names of nodes, with rooms, that Redis may have lost the records of: nobody would remove their
// members. The zero value is empty.
type unlisted struct {
	mu    sync.Mutex
	rooms map[string]map[string]bool // guarded by mu: by node
}

// List makes sure that the nodes of a room's members are among those whose members are removed when they are dead.
// It is for a room that begins a new epoch since Redis has lost something: the records of a node may be lost,
// and the members be there. That is so when commits come between the loss of a lease and the moment
// when its node notices, and Redis later comes back from a copy which was made in between.
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

// listUnlisted writes what List was told. What fails is kept for the next time.
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
