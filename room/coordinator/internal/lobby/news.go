package lobby

import (
	"context"
	"maps"
	"sync"
	"time"

	"roomd/room"
)

const (
	newsPause = share / 2   // before what has changed is written to Redis, with all that changes meanwhile
	newsRetry = time.Second // the same after a failure
	newsKept  = timeout     // how long readers here need at most to read what was written

	closeTimeout = time.Second // how long Close writes
)

// news are the rooms that this node has changed of late. It writes them to Redis, where every node
// finds them that shows a list of all rooms. If the node dies before it has, the next search finds them.
type news struct {
	index   *index
	life    context.Context
	timeout time.Duration
	busy    sync.WaitGroup // a timer that runs, or what it has started

	mu     sync.Mutex
	rooms  map[string]*novelty // guarded by mu: by id
	count  uint64              // guarded by mu: of changes so far
	timer  *time.Timer         // guarded by mu: nil if there is nothing to write
	closed bool                // guarded by mu
}

// novelty is what this node has made of a room.
type novelty struct {
	*change
	saved time.Time // when it was written, by our clock; zero if it has not been
}

// Committed records a room as it is after a commit with these updates.
func (l *Lobby) Committed(r *room.Room, updates []room.Update) {
	for i := range updates {
		if kind := updates[i].Type; kind == room.KindJoin || kind == room.KindLeave || kind.Field() == "settings" {
			settings, _ := r.Settings()
			l.news.put(changeOf(r.ID, r.Position, r.Count(), settings))
			return
		}
	}
}

func changeOf(id string, at room.Position, members int, settings room.Settings) *change {
	return &change{
		Listed: Listed{ID: id, Members: members, Capacity: settings.Capacity, Closed: settings.Closed, Labels: settings.Labels, Epoch: at.Epoch, Version: at.Version},
		listed: members > 0 || !settings.Unused(),
	}
}

func (n *news) put(c *change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rooms == nil {
		n.rooms = make(map[string]*novelty)
	}
	if is := n.rooms[c.ID]; is != nil && is.Epoch == c.Epoch && is.Version > c.Version {
		return // who took or was refused a seat then comes late
	}
	n.rooms[c.ID] = &novelty{change: c}
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
	maps.DeleteFunc(n.rooms, func(_ string, c *novelty) bool { return !c.saved.IsZero() && time.Since(c.saved) > newsKept })
	for _, c := range n.rooms {
		if c.saved.IsZero() {
			list = append(list, c.change)
		}
	}
	return list
}

// save writes to Redis what is not there yet.
func (n *news) save(ctx context.Context) error {
	n.mu.Lock()
	list := n.unsavedLocked()
	n.mu.Unlock()
	if err := n.index.note(ctx, list); err != nil {
		return err
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range list {
		if is := n.rooms[c.ID]; is != nil && is.change == c {
			is.saved = now
		}
	}
	return nil
}

// since returns what this node has changed and not written to Redis before a moment, and a number
// that grows with each change.
func (n *news) since(moment time.Time) (own map[string]*change, count uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	own = make(map[string]*change)
	for id, c := range n.rooms {
		if c.saved.IsZero() || !c.saved.Before(moment) {
			own[id] = c.change
		}
	}
	return own, n.count
}

// overtaken forgets what the index has a later version of.
func (n *news) overtaken(changed map[string]*change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, c := range changed {
		if is := n.rooms[id]; is != nil && is.Epoch == c.Epoch && is.Version < c.Version {
			delete(n.rooms, id)
		}
	}
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
