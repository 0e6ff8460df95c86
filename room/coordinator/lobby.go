package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/lockmgr"
	"roomd/lockmgr/cachefill"
	"roomd/room"
)

const (
	// lobbyPrefix and lobbyKey make the key of the list of rooms in Redis.
	lobbyPrefix = "Lobby:"
	lobbyKey    = "rooms"

	lobbyFresh = time.Second      // how long a list serves everybody
	lobbyStale = 10 * time.Second // how much longer it does while one node makes the next
	lobbyShare = lobbyFresh / 5   // how long a node shows its copy without asking Redis

	lobbyTimeout = 5 * time.Second // of a list that nobody has yet
)

// MaxLobby is how many rooms a [Lobby] lists at most.
const MaxLobby = 20_000

// Lobby is a list of all rooms, as they were a moment ago. It is shared: do not change it.
type Lobby struct {
	// Rooms are in the order of their ids.
	Rooms []Listed `json:"rooms"`

	// Truncated says that there are more rooms, or that Redis took too long to find all.
	Truncated bool `json:"truncated,omitzero"`
}

// Listed is a room in a [Lobby].
type Listed struct {
	ID       string `json:"id"`
	Members  int    `json:"members"`
	Capacity int    `json:"capacity"` // how many seats there are; 0 means room.MaxSeats
	Closed   bool   `json:"closed,omitzero"`
}

// Free returns how many seats nobody has.
func (l *Listed) Free() int { return max(0, room.Settings{Capacity: l.Capacity}.Seats()-l.Members) }

// lobby makes lists of all rooms: one node at a time for all of them, at most once in lobbyFresh.
type lobby struct {
	store *store
	cache *cachefill.Cache
	seats int // of rooms without settings

	mu      sync.Mutex
	encoded []byte    // guarded by mu: what shown was decoded from
	shown   *Lobby    // guarded by mu: nil before the first
	at      time.Time // guarded by mu: when Redis had it
}

func newLobby(locks *lockmgr.Manager, s *store, opts Options, episodes *episodes) (*lobby, error) {
	cache, err := cachefill.New(locks, cachefill.Options{
		Prefix: lobbyPrefix, Fresh: lobbyFresh, Stale: lobbyStale, Wait: lobbyTimeout, Load: lobbyTimeout,
		Failed: func(_ string, err error) { episodes.lobby.Happened(err) },
	})
	return &lobby{store: s, cache: cache, seats: opts.Rules.Seats()}, err
}

// Lobby returns a list of all rooms that Redis has, also of those that are empty and not yet
// forgotten. It is a second old, or two, and up to ten more where nobody has asked for a while.
// However many callers and nodes ask, one node at a time searches Redis.
//
// It fails with [room.ErrUnavailable], [room.ErrClosed] or the cause of ctx.
func (c *Coordinator) Lobby(ctx context.Context) (*Lobby, error) {
	shown, err := c.lobby.get(ctx)
	switch {
	case err == nil:
		return shown, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, cachefill.ErrClosed):
		return nil, room.ErrClosed
	}
	c.episodes.lobby.Happened(err)
	return nil, fmt.Errorf("%w: the list of rooms: %w", room.ErrUnavailable, err)
}

func (l *lobby) get(ctx context.Context) (*Lobby, error) {
	if shown := l.copy(); shown != nil {
		return shown, nil
	}
	value, err := l.cache.Get(ctx, lobbyKey, l.load)
	if err != nil {
		return nil, err
	}
	return l.decode(value)
}

// copy returns the list that this node has just shown, or nil.
func (l *lobby) copy() *Lobby {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown == nil || time.Since(l.at) >= lobbyShare {
		return nil
	}
	return l.shown
}

// decode reads a list, unless the last one was the same.
func (l *lobby) decode(value []byte) (*Lobby, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown == nil || !bytes.Equal(value, l.encoded) {
		next := new(Lobby)
		if err := json.Unmarshal(value, next); err != nil {
			return nil, fmt.Errorf("%s%s is not as roomd writes it: %w", lobbyPrefix, lobbyKey, err)
		}
		l.encoded, l.shown = value, next
	}
	l.at = time.Now()
	return l.shown, nil
}

// load searches Redis. Only the node that has the cache's lock does so.
func (l *lobby) load(ctx context.Context) ([]byte, error) {
	rooms, whole, err := l.store.list(ctx, MaxLobby, l.seats)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rooms, func(a, b Listed) int { return cmp.Compare(a.ID, b.ID) })
	rooms = slices.CompactFunc(rooms, func(a, b Listed) bool { return a.ID == b.ID }) // SCAN may return a key twice
	if len(rooms) > MaxLobby {
		rooms, whole = rooms[:MaxLobby], false
	}
	return json.Marshal(Lobby{rooms, !whole})
}
