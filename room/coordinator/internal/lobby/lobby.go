// Package lobby keeps an index of all rooms in Redis, for lists of rooms and for players who look for a table.
//
// Nodes write the results of their commits to the index (news.go). A node that is asked for the list keeps a copy,
// and updates it by the changes since (lobby.go). [Lobby.Claim] finds a table (match.go). The index is a hint: only
// rooms decide who sits down. It may miss something if a node died before its write, Redis lost data, or somebody
// edited it. One node at a time now and then compares the index with all rooms, and mends it (search.go). No
// request searches Redis.
//
// From the first use a goroutine runs, and a timer while this node's changes are not written. [Lobby.Close] ends
// both.
package lobby

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

const (
	share   = 200 * time.Millisecond // how long a node shows a list without asking Redis for changes
	timeout = 5 * time.Second        // limits one read of the index
	patient = 3 * time.Second        // how long after the first use callers wait for a complete index
	stale   = 30 * time.Second       // maximum age of a list that is shown while Redis does not answer
)

// Lobby lists rooms and finds free seats. It is safe for concurrent use.
type Lobby struct {
	index  *index
	news   *news
	seats  int // number of seats of rooms without settings
	open   context.Context
	failed *ratelog.Log
	shared singleflight.Group // merges concurrent reads
	busy   sync.WaitGroup     // reads and the loop

	reading sync.Mutex // held while the index is read

	mu     sync.Mutex
	used   time.Time // guarded by mu: when the loop started; zero before
	closed bool      // guarded by mu
	rooms  []*Listed // guarded by mu: the copy of the index
	known  known     // guarded by mu: the copy's state
	whole  bool      // guarded by mu: the copy has all rooms
	at     time.Time // guarded by mu: when the copy was current; zero before the first read
	reads  uint64    // guarded by mu: number of reads so far
	shown  *List     // guarded by mu: rooms with this node's own changes
	basis  basis     // guarded by mu: of shown
}

type basis struct {
	reads uint64 // number of reads
	own   uint64 // number of this node's own changes
}

// New returns a Lobby of the rooms in st. seats is the number of seats of rooms without settings. open ends reads, life
// ends writes, and timeout limits each write.
func New(open, life context.Context, st *store.Store, seats int, timeout time.Duration, set *ratelog.Set) *Lobby {
	x := &index{store: st, keys: keysOf(st.Space)}
	return &Lobby{
		index: x, seats: seats, open: open, failed: set.Warn("the index of the rooms could not be read or completed"),
		news: &news{index: x, life: life, timeout: timeout},
	}
}

// Start starts the search for rooms that are missing in the index. The first Get or Next does so, too.
func (l *Lobby) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used.IsZero() && !l.closed {
		l.used = time.Now()
		l.busy.Go(l.searchLoop)
	}
}

// Get returns the list; see Coordinator.Lobby.
func (l *Lobby) Get(ctx context.Context) (*List, error) {
	l.Start()
	shown, err := l.get(ctx)
	for err == nil && shown.Truncated && l.isNew() {
		if err = pause.For(ctx, share); err == nil {
			shown, err = l.get(ctx)
		}
	}
	return shown, l.explain(ctx, err)
}

// isNew reports whether callers should still wait for the first search.
func (l *Lobby) isNew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.used) < patient
}

// explain returns the error for callers. It logs err unless the caller gave up or the Lobby is closed.
func (l *Lobby) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, room.ErrClosed), errors.Is(err, lockmgr.ErrClosed), l.open.Err() != nil:
		return room.ErrClosed
	}
	l.failed.Happened(err)
	return fmt.Errorf("%w: the list of rooms: %w", room.ErrUnavailable, err)
}

func (l *Lobby) get(ctx context.Context) (*List, error) {
	if shown := l.current(); shown != nil {
		return shown, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	read := l.shared.DoChan("", func() (any, error) {
		if !l.begin() {
			return nil, room.ErrClosed
		}
		defer l.busy.Done()
		if l.current() != nil { // the index was read since the caller looked
			return nil, nil
		}
		return nil, l.read(l.open)
	})
	select {
	case result := <-read:
		if result.Err != nil && (l.open.Err() != nil || !l.isFresh()) {
			return nil, result.Err
		} else if result.Err != nil {
			l.failed.Happened(result.Err)
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.showLocked(), nil
}

// isFresh reports whether the list may still be shown while Redis does not answer.
func (l *Lobby) isFresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.at.IsZero() && time.Since(l.at) < stale
}

// begin makes Close wait for a read, which must call busy.Done. It returns false after Close.
func (l *Lobby) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.busy.Add(1)
	}
	return !l.closed
}

// Close writes this node's remaining changes, and waits for reads and searches. Call it after open has ended.
func (l *Lobby) Close() {
	l.news.close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.busy.Wait()
}

// current returns the list with this node's own changes, or nil if there is no copy younger than share.
func (l *Lobby) current() *List {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || time.Since(l.at) >= share {
		return nil
	}
	return l.showLocked()
}

func (l *Lobby) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l.reading.Lock() // so that an older answer does not replace a newer one
	defer l.reading.Unlock()
	l.mu.Lock()
	since := l.known
	l.mu.Unlock()
	at := time.Now()
	changed, now, whole, anew, err := l.index.changes(ctx, since)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if anew {
		l.rooms = nil
	}
	l.rooms, l.known, l.whole, l.at = after(l.rooms, changed), now, whole, at
	l.reads++
	l.news.overtaken(changed)
	return nil
}

// showLocked returns the copy of the index with this node's newer changes, as a list.
func (l *Lobby) showLocked() *List {
	if l.shown != nil && l.basis == (basis{l.reads, l.news.counted()}) {
		return l.shown
	}
	own, count := l.news.since(l.at)
	l.basis = basis{l.reads, count}
	next := &List{Rooms: after(l.rooms, own), Truncated: !l.whole}
	if l.shown != nil {
		next.serial, next.changed = l.shown.serial+1, next.differsIn(l.shown)
		if len(next.changed) == 0 && next.Truncated == l.shown.Truncated {
			return l.shown
		}
	}
	l.shown = next
	return next
}

// Next waits until the list differs from an earlier one (before), and returns it with the ids of the rooms that differ.
// If before is nil, Next does not wait, and returns no ids.
func (l *Lobby) Next(ctx context.Context, before *List) (now *List, ids []string, err error) {
	l.Start()
	for {
		if now, err = l.get(ctx); err != nil || before == nil {
			return now, nil, l.explain(ctx, err)
		}
		if now != before {
			return now, now.since(before), nil
		}
		if err := pause.For(ctx, share); err != nil {
			return nil, nil, l.explain(ctx, err)
		}
	}
}
