// Package relay copies the commits of all rooms from their journals into one stream, the feed. Readers can continue
// at any place in it.
//
// Start with [New]. A node that has committed to a room reads the new part of the room's journal, and appends it by a
// script that checks that no other node has done so. So the feed has each room's commits once and in order, whichever
// nodes take part. If a node dies before it has copied, others find the rest, because they compare all journals now
// and then. A [Gap] marks commits that a journal lacks.
//
// The keys of the feed share a hash slot. One goroutine copies, one searches for missing commits.
package relay

import (
	"context"
	_ "embed"
	"sync"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room/coordinator/internal/keys"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

const (
	gather       = 5 * time.Millisecond // how long commits are collected before they are copied together
	maxRooms     = 500                  // most rooms copied together
	copyTimeout  = 5 * time.Second
	closeTimeout = 2 * time.Second // limits the copying of Close
)

var (
	//go:embed lua/append.lua
	appendLua string

	//go:embed lua/rooms.lua
	roomsLua string

	// AppendScript is lua/append.lua.
	AppendScript = store.NewScript(appendLua)

	roomsScript = store.NewScript(roomsLua)
)

// Keys are the keys of the feed.
type Keys struct {
	Entries  string // a stream
	Rooms    string // a hash: the place of each room
	Searched string // a string that exists while no search is needed
	Readers  string // a hash: the places of readers that keep them here
}

func KeysOf(names keys.Space) Keys {
	return Keys{names.Feed("Entries"), names.Feed("Rooms"), names.Feed("Searched"), names.Feed("Readers")}
}

// Relay copies commits into the feed, and reads it. It is safe for concurrent use.
type Relay struct {
	store  *store.Store
	keys   Keys
	keep   int             // approximate number of entries; 0: this node copies nothing
	open   context.Context // of work that nobody waits for
	life   context.Context
	failed *ratelog.Log
	broken *ratelog.Log
	busy   sync.WaitGroup
	wake   chan struct{} // signals that there is something to copy
	newest newest

	mu    sync.Mutex
	dirty map[string]bool // guarded by mu: rooms that may have commits to copy; nil if this node copies nothing
}

// New returns a Relay. keep is about how many entries the feed keeps; with 0 the Relay only reads. It stops copying
// when open ends; Close then copies the rest, unless life ends.
func New(open, life context.Context, st *store.Store, keep int, set *ratelog.Set) *Relay {
	r := &Relay{
		store: st, keys: KeysOf(st.Space), keep: keep, open: open, life: life, wake: make(chan struct{}, 1),
		failed: set.Warn("commits could not be copied into the feed, trying again"),
		broken: set.Error("entries of journals cannot be read; the feed has gaps in their place"),
	}
	if keep > 0 {
		r.dirty = make(map[string]bool)
	}
	return r
}

// Start starts the copying, and the search for commits that no node has copied. Call it at most once, before Close.
func (r *Relay) Start() {
	if r.keep > 0 {
		r.busy.Go(r.copyLoop)
		r.busy.Go(r.searchLoop)
	}
}

// Committed records that rooms may have commits to copy. It returns at once. Call it only if keep is not 0: see New.
func (r *Relay) Committed(ids ...string) {
	if len(ids) == 0 {
		return
	}
	r.mu.Lock()
	for _, id := range ids {
		r.dirty[id] = true
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Relay) take() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.dirty {
		if len(ids) == maxRooms {
			break
		}
		ids = append(ids, id)
		delete(r.dirty, id)
	}
	return ids
}

// Waiting returns the number of rooms whose commits this node has yet to copy.
func (r *Relay) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.dirty)
}

func (r *Relay) copyLoop() {
	again := pause.Backoff{First: 50 * time.Millisecond, Max: time.Second, Jitter: 0.5}
	for {
		select {
		case <-r.wake:
		case <-r.open.Done():
			return
		}
		wait := gather
		for {
			if pause.For(r.open, wait) != nil {
				return
			}
			left, err := r.copySome(r.open)
			if err == nil && !left {
				again.Reset()
				break
			}
			if wait = gather; err != nil && r.open.Err() == nil {
				r.failed.Happened(r.store.Explain(r.open, err, r.store.Shared()...))
				wait = again.Next()
			}
		}
	}
}

// copySome copies from some of the rooms, and reports whether others are left.
func (r *Relay) copySome(ctx context.Context) (left bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	ids := r.take()
	if len(ids) == 0 {
		return false, nil
	}
	again, err := r.copy(ctx, ids)
	if err != nil {
		again = ids
	}
	r.Committed(again...)
	return r.Waiting() > 0, err
}

// Close waits for the goroutines, and copies the rest. Call it after the open context of New has ended.
func (r *Relay) Close() {
	r.busy.Wait()
	ctx, cancel := context.WithTimeout(r.life, closeTimeout)
	defer cancel()
	for left := true; left; {
		var err error
		if left, err = r.copySome(ctx); err != nil {
			return // another node finds the rest
		}
	}
}
