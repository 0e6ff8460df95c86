// Package relay copies the commits of all rooms from their journals into one stream, the feed, from which others
// read on from any place.
//
// Start with [New]. The node that has committed to a room reads what its journal has beyond what the feed has of
// it, and appends that by a script, which checks that nobody else has done so meanwhile. So each room's commits are
// in the feed once, in their order, whichever nodes take part. What a node has not copied before it died, another
// one finds, by looking at all journals now and then. Where a journal lacks commits, a [Gap] stands in their place.
//
// The keys of the feed are in one hash slot. One goroutine copies, and one looks for what is missing.
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
	gather       = 5 * time.Millisecond // for how long commits are gathered that are copied together
	maxRooms     = 500                  // that are copied together
	copyTimeout  = 5 * time.Second
	closeTimeout = 2 * time.Second // how long Close copies what is left
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
	Entries  string // the stream
	Rooms    string // a hash: up to where the feed has each room's journal
	Searched string // a string, which is there while nobody needs to look for what is missing
	Readers  string // a hash: up to where readers have come that keep their places here
}

// KeysOf returns the keys of the feed.
func KeysOf(names keys.Space) Keys {
	return Keys{names.Feed("Entries"), names.Feed("Rooms"), names.Feed("Searched"), names.Feed("Readers")}
}

// Relay copies commits into the feed, and reads it. It is safe for concurrent use.
type Relay struct {
	store  *store.Store
	keys   Keys
	keep   int             // about how many entries; 0: this node copies nothing
	open   context.Context // of what is done without anybody who waits
	life   context.Context
	failed *ratelog.Log
	broken *ratelog.Log
	start  sync.Once
	busy   sync.WaitGroup
	wake   chan struct{} // says that there is something to copy
	newest newest

	mu    sync.Mutex
	dirty map[string]bool // guarded by mu: rooms with commits that may not be in the feed yet; nil if nothing is copied
}

// New returns a Relay that keeps about so many entries, or only reads if keep is 0. It copies until open ends; life
// bounds what Close copies after that.
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

// Start begins to copy, also what others have not copied.
func (r *Relay) Start() {
	if r.keep > 0 {
		r.start.Do(func() {
			r.busy.Go(r.copyLoop)
			r.busy.Go(r.searchLoop)
		})
	}
}

// Committed says that this node has committed to a room. It returns at once.
func (r *Relay) Committed(id string) {
	if r.keep > 0 {
		r.put(id)
	}
}

func (r *Relay) put(ids ...string) {
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

// take returns rooms with something to copy, and forgets them.
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

// Waiting returns in how many rooms this node has commits to copy.
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
	r.put(again...)
	return r.Waiting() > 0, err
}

// Close copies what is left, and returns when nothing runs any more. The open context has ended before.
func (r *Relay) Close() {
	r.start.Do(func() {}) // it does not start any more
	r.busy.Wait()
	ctx, cancel := context.WithTimeout(r.life, closeTimeout)
	defer cancel()
	for left := true; left; {
		var err error
		if left, err = r.copySome(ctx); err != nil {
			return // another node finds it
		}
	}
}
