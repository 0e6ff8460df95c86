package lobby

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/singleflight"

	"roomd/lockmgr"
	"roomd/lockmgr/cachefill"
	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/episode"
)

const (
	// Prefix and lobbyKey make the key of the list of rooms in Redis.
	Prefix   = "Lobby:"
	lobbyKey = "rooms"

	lobbyShare = 200 * time.Millisecond // how long a node shows a list without asking Redis what has changed
	lobbyBase  = time.Second            // how long it does without asking Redis for the list of the last search
	lobbyFresh = 10 * time.Second       // how long Redis is not searched again
	lobbyStale = 20 * time.Second       // how much longer the list serves everybody while one node makes the next

	lobbyTimeout = 5 * time.Second // of a list that nobody has yet

	// Changes are kept until no list is shown that needs them, and recorded as long as anybody asks.
	lobbyKeep   = lobbyFresh + lobbyStale + 3*lobbyTimeout
	lobbyRecord = 2 * lobbyKeep
)

// Max is how many rooms a [List] has at most.
const Max = 20_000

// List is a list of rooms, as they were a moment ago. It is shared: do not change it.
type List struct {
	// Rooms are in the order of their ids.
	Rooms []Listed `json:"rooms"`

	// Truncated says that there are more rooms, or that Redis took too long to find all.
	Truncated bool `json:"truncated,omitzero"`
}

// Listed is a room in a [List].
type Listed struct {
	ID       string `json:"id"`
	Members  int    `json:"members"`
	Capacity int    `json:"capacity"` // how many seats there are; 0 means room.MaxSeats
	Closed   bool   `json:"closed,omitzero"`

	Epoch   string `json:"epoch"`
	Version uint64 `json:"version"`
}

// Free returns how many seats nobody has.
func (l *Listed) Free() int { return max(0, room.Settings{Capacity: l.Capacity}.Seats()-l.Members) }

// Lobby makes lists of rooms. At most once in lobbyFresh one node searches Redis for all of them; what
// has changed since is recorded in Redis (news.go), so that no list is older than a moment.
type Lobby struct {
	store  *store.Store
	cache  *cachefill.Cache
	news   *news
	seats  int // of rooms without settings
	open   context.Context
	failed *episode.Log
	shared singleflight.Group // of reads
	busy   sync.WaitGroup     // reads

	mu      sync.Mutex
	encoded []byte             // guarded by mu: what found was decoded from
	found   *searched          // guarded by mu: nil before the first
	foundAt time.Time          // guarded by mu: when Redis had it
	changes map[string]*change // guarded by mu: behind found
	at      time.Time          // guarded by mu: when Redis had changes; zero before the first
	shown   *List              // guarded by mu: all of it in one
	count   uint64             // guarded by mu: of the node's own changes in it
	closed  bool               // guarded by mu
}

// New returns a Lobby of the rooms in st. Rooms without settings have so many seats. Reads end with open,
// and what Close writes with life; a write takes no longer than timeout.
func New(open, life context.Context, locks *lockmgr.Manager, st *store.Store, seats int, timeout time.Duration, set *episode.Set) (*Lobby, error) {
	l := &Lobby{store: st, seats: seats, open: open, failed: set.Warn("the list of rooms could not be made"), news: &news{store: st, life: life, timeout: timeout}}
	var err error
	l.cache, err = cachefill.New(locks, cachefill.Options{
		Prefix: Prefix, Fresh: lobbyFresh, Stale: lobbyStale, Wait: lobbyTimeout, Load: lobbyTimeout,
		Failed: func(_ string, err error) { l.failed.Happened(err) },
	})
	return l, err
}

// Get returns the list; see Coordinator.Lobby.
func (l *Lobby) Get(ctx context.Context) (*List, error) {
	shown, err := l.get(ctx)
	switch {
	case err == nil:
		return shown, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, room.ErrClosed), errors.Is(err, lockmgr.ErrClosed), l.open.Err() != nil:
		return nil, room.ErrClosed
	}
	l.failed.Happened(err)
	return nil, fmt.Errorf("%w: the list of rooms: %w", room.ErrUnavailable, err)
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
		if result.Err != nil {
			return nil, result.Err
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.showLocked(), nil
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
	l.cache.Close()
	l.busy.Wait()
}

// current returns the list that this node has just read, with its own changes, or nil.
func (l *Lobby) current() *List {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() || time.Since(l.at) >= lobbyShare {
		return nil
	}
	return l.showLocked()
}

// read reads what has changed, and if need be the list that it has changed.
func (l *Lobby) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*lobbyTimeout)
	defer cancel()
	l.mu.Lock()
	found, old := l.found, time.Since(l.foundAt) >= lobbyBase
	l.mu.Unlock()
	if found == nil || old {
		value, err := l.cache.Get(ctx, lobbyKey, l.load)
		if err == nil {
			found, err = l.decode(value)
		}
		if err != nil {
			return err
		}
	}
	changes, at, err := l.readChanges(ctx, found.Since)
	if errors.Is(err, errUnrecorded) { // Redis has lost the one and not the other
		var value []byte
		if value, err = l.load(ctx); err == nil {
			found, err = l.decode(value)
		}
		if err == nil {
			changes, at, err = l.readChanges(ctx, found.Since)
		}
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found, l.changes, l.at, l.shown = found, changes, at, nil
	return nil
}

// errUnrecorded: changes were not recorded since a list was made.
var errUnrecorded = errors.New("changes of rooms were not recorded")

// readChanges reads what has changed since a search began, as it was at a moment by our clock.
func (l *Lobby) readChanges(ctx context.Context, since int64) (changes map[string]*change, at time.Time, err error) {
	at = time.Now()
	fields, err := l.store.Client.HGetAll(ctx, lobbyChanges).Result()
	if err != nil {
		return nil, at, err
	}
	if began, err := strconv.ParseInt(fields["~"], 10, 64); err != nil || began > since {
		return nil, at, errUnrecorded
	}
	changes = make(map[string]*change)
	for id, text := range fields {
		if c, ok := parseChange(id, text); ok && c.at >= since {
			changes[id] = c
		}
	}
	return changes, at, nil
}

// decode reads a list, unless the last one was the same.
func (l *Lobby) decode(value []byte) (*searched, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found == nil || !bytes.Equal(value, l.encoded) {
		next := new(searched)
		if err := json.Unmarshal(value, next); err != nil {
			return nil, fmt.Errorf("%s%s is not as roomd writes it: %w", Prefix, lobbyKey, err)
		}
		l.encoded, l.found = value, next
	}
	l.foundAt = time.Now()
	return l.found, nil
}

// showLocked returns the list, with what this node has changed since.
func (l *Lobby) showLocked() *List {
	if l.shown == nil || l.news.counted() != l.count {
		own, count := l.news.since(l.at)
		l.shown, l.count = l.found.with(l.changes, own), count
	}
	return l.shown
}

// load searches Redis. Only the node that has the cache's lock does so.
func (l *Lobby) load(ctx context.Context) ([]byte, error) {
	since, err := redisconn.Run(ctx, l.store.Client, lobbyBeginScript, []string{lobbyChanges}, lobbyRecord.Milliseconds(), lobbyKeep.Milliseconds()).Int64()
	if err != nil {
		return nil, err
	}
	rooms, whole, err := l.Search(ctx, Max)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rooms, func(a, b Listed) int { return cmp.Compare(a.ID, b.ID) })
	rooms = slices.CompactFunc(rooms, func(a, b Listed) bool { return a.ID == b.ID }) // SCAN may return a key twice
	if len(rooms) > Max {
		rooms, whole = rooms[:Max], false
	}
	return json.Marshal(searched{List{rooms, !whole}, since})
}
