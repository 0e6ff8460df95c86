package lobby

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

var (
	//go:embed lua/lobby_begin.lua
	lobbyBeginLua string
	//go:embed lua/lobby_note.lua
	lobbyNoteLua string

	// The scripts on what has changed.
	lobbyBeginScript = redis.NewScript(lobbyBeginLua)
	lobbyNoteScript  = redis.NewScript(lobbyNoteLua)
)

const (
	// lobbyChanges is the key of what has changed since a list of all rooms was made.
	lobbyChanges = Prefix + "changes"

	newsPause = lobbyShare / 2 // before what has changed is written to Redis, with all that changes meanwhile
	newsRetry = time.Second    // the same after a failure
	newsChunk = 1000           // rooms in one request

	closeTimeout = time.Second // how long Close writes
)

// news are the rooms that this node has changed of late. It writes them to Redis, where every node
// finds them that shows a list of all rooms. If the node dies before it has, the next search for all
// rooms finds them.
type news struct {
	store   *store.Store
	life    context.Context
	timeout time.Duration
	busy    sync.WaitGroup // a timer that runs, or what it has started

	mu     sync.Mutex
	rooms  map[string]*change // guarded by mu: by id
	count  uint64             // guarded by mu: of changes so far
	timer  *time.Timer        // guarded by mu: nil if there is nothing to write
	closed bool               // guarded by mu
}

// change is a room as a commit has left it.
type change struct {
	Listed
	listed bool      // it is in the list
	at     int64     // when it was written to Redis, in ms since 1970 by its clock; 0 if it is from this node
	saved  time.Time // when this node had written it, by our clock; zero if it has not
}

// Committed records a room as it is after a commit with these updates.
func (l *Lobby) Committed(r *room.Room, updates []room.Update) {
	for i := range updates {
		switch updates[i].Type {
		case room.KindJoin, room.KindLeave, room.KindSettings, room.KindDefaults:
			l.news.put(changeOf(r))
			return
		}
	}
}

func changeOf(r *room.Room) *change {
	settings, _ := r.Settings()
	return &change{
		Listed: Listed{ID: r.ID, Members: r.Count(), Capacity: settings.Capacity, Closed: settings.Closed, Epoch: r.Epoch, Version: r.Version},
		listed: r.Count() > 0 || !settings.Unused(),
	}
}

func (n *news) put(c *change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rooms == nil {
		n.rooms = make(map[string]*change)
	}
	n.rooms[c.ID] = c
	n.count++
	n.scheduleLocked(newsPause)
}

func (n *news) scheduleLocked(pause time.Duration) {
	if n.timer != nil || n.closed {
		return
	}
	n.busy.Add(1)
	n.timer = time.AfterFunc(pause, func() {
		defer n.busy.Done()
		ctx, cancel := context.WithTimeout(n.life, n.timeout)
		defer cancel()
		err := n.save(ctx)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.timer = nil
		if err != nil {
			n.scheduleLocked(newsRetry)
		} else if len(n.unsavedLocked()) > 0 {
			n.scheduleLocked(newsPause)
		}
	})
}

// unsavedLocked returns what is not in Redis yet, and forgets what has been there for longer than
// readers here need to read it.
func (n *news) unsavedLocked() (list []*change) {
	maps.DeleteFunc(n.rooms, func(_ string, c *change) bool { return !c.saved.IsZero() && time.Since(c.saved) > lobbyTimeout })
	for _, c := range n.rooms {
		if c.saved.IsZero() {
			list = append(list, c)
		}
	}
	return list
}

// save writes to Redis what is not there yet.
func (n *news) save(ctx context.Context) error {
	n.mu.Lock()
	list := n.unsavedLocked()
	n.mu.Unlock()
	for chunk := range slices.Chunk(list, newsChunk) {
		args := []any{2 * Max}
		for _, c := range chunk {
			args = append(args, c.ID, c.Epoch, c.Version, c.text())
		}
		if err := redisconn.Run(ctx, n.store.Client, lobbyNoteScript, []string{lobbyChanges}, args...).Err(); err != nil {
			return err
		}
		now := time.Now()
		n.mu.Lock()
		for _, c := range chunk {
			c.saved = now
		}
		n.mu.Unlock()
	}
	return nil
}

// text returns how the room is now, "-" if it is not listed.
func (c *change) text() string {
	if !c.listed {
		return "-"
	}
	closed := 0
	if c.Closed {
		closed = 1
	}
	return fmt.Sprint(c.Members, " ", c.Capacity, " ", closed)
}

// parseChange reads what lobby_note.lua has written.
func parseChange(id, text string) (c *change, ok bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 4 && len(parts) != 6 {
		return nil, false
	}
	c = &change{Listed: Listed{ID: id, Epoch: parts[1]}, listed: len(parts) == 6}
	var failed [4]error
	c.at, failed[0] = strconv.ParseInt(parts[0], 10, 64)
	c.Version, failed[1] = strconv.ParseUint(parts[2], 10, 64)
	if c.listed {
		c.Members, failed[2] = strconv.Atoi(parts[3])
		c.Capacity, failed[3] = strconv.Atoi(parts[4])
		c.Closed = parts[5] == "1"
	}
	return c, failed == [4]error{}
}

// since returns what this node has changed and not written to Redis before a moment, and a number
// that grows with each change.
func (n *news) since(moment time.Time) (list []*change, count uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.rooms {
		if c.saved.IsZero() || !c.saved.Before(moment) {
			list = append(list, c)
		}
	}
	return list, n.count
}

// counted returns that number.
func (n *news) counted() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count
}

// close writes what is left. Nothing is noted any more.
func (n *news) close() {
	n.mu.Lock()
	n.closed = true
	timer := n.timer
	n.mu.Unlock()
	if timer == nil {
		return
	}
	if timer.Stop() {
		n.busy.Done()
		ctx, cancel := context.WithTimeout(n.life, closeTimeout)
		defer cancel()
		_ = n.save(ctx) // else the next search finds it
	}
	n.busy.Wait()
}
