// Package lobby keeps an index of all rooms in Redis: for lists of rooms, and for those who look for a table.
//
// Nodes note there what their commits have made of rooms (news.go), and each that is asked has a copy, which it
// brings up to date with what has changed since (lobby.go). [Lobby.Claim] finds a table (match.go). The index is a
// hint: rooms decide by themselves who sits down. What it misses, because a node has died before it noted a commit,
// or Redis has lost some of it or was changed by hand, comes with the next comparison of the index with all rooms,
// which one node at a time makes now and then (search.go). No request searches Redis.
//
// It runs a goroutine from the first use on, and a timer while this node's changes are not written. [Lobby.Close]
// ends them.
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
	share   = 200 * time.Millisecond // how long a node shows a list without asking Redis what has changed
	timeout = 5 * time.Second        // of a list that nobody has yet
	patient = 3 * time.Second        // how long after the first use callers wait until all rooms are in the index
	stale   = 30 * time.Second       // how old a list may be that is shown because Redis does not answer
)

// Lobby lists the rooms, and finds free seats. It is safe for concurrent use.
type Lobby struct {
	index  *index
	news   *news
	seats  int // of rooms without settings
	open   context.Context
	failed *ratelog.Log
	shared singleflight.Group // of reads
	busy   sync.WaitGroup     // reads, and the loop

	reading sync.Mutex // of the index, one after the other

	mu     sync.Mutex
	used   time.Time // guarded by mu: since when the loop runs; zero before
	closed bool      // guarded by mu
	rooms  []*Listed // guarded by mu: as the index has them
	known  known     // guarded by mu: up to what
	whole  bool      // guarded by mu
	at     time.Time // guarded by mu: when the index was so; zero before the first
	reads  uint64    // guarded by mu: of the index so far
	shown  *List     // guarded by mu: that, and this node's own changes
	basis  basis     // guarded by mu: of shown
}

// basis is what a list was made of.
type basis struct {
	reads uint64 // of the index before it
	own   uint64 // of the node's own changes before it
}

// New returns a Lobby of the rooms in st. Rooms without settings have so many seats. Reads end with open,
// and what Close writes with life; a write takes no longer than timeout.
func New(open, life context.Context, st *store.Store, seats int, timeout time.Duration, set *ratelog.Set) *Lobby {
	x := &index{store: st, keys: keysOf(st.Space)}
	return &Lobby{
		index: x, seats: seats, open: open, failed: set.Warn("the index of the rooms could not be read or completed"),
		news: &news{index: x, life: life, timeout: timeout},
	}
}

// Start begins to see to it that the index has all rooms. Without it the first use does.
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

// isNew reports whether the first search may still run.
func (l *Lobby) isNew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.used) < patient
}

// explain returns what callers get to know of an error.
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
		if l.current() != nil { // it has come since the caller looked
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

// isFresh reports whether there is a list that may be shown although Redis does not answer.
func (l *Lobby) isFresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.at.IsZero() && time.Since(l.at) < stale
}

// begin makes close wait for a read. It reports false after close.
func (l *Lobby) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.busy.Add(1)
	}
	return !l.closed
}

// Close ends what reads or searches, after open has ended, and writes what this node has changed.
func (l *Lobby) Close() {
	l.news.close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.busy.Wait()
}

// current returns the list that this node has just read, with its own changes, or nil.
func (l *Lobby) current() *List {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || time.Since(l.at) >= share {
		return nil
	}
	return l.showLocked()
}

// read brings this node's copy of the index up to date.
func (l *Lobby) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l.reading.Lock() // an earlier answer must not undo a later one
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

// showLocked returns the list, with what this node has changed since.
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

// Next waits until the list is another one than before, and returns it with the ids of the rooms in which they
// differ. Nil is no list: then it does not wait, and returns no ids.
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
