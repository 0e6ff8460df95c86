package lobby

import (
	"context"
	"maps"
	"sync"
	"time"

	"roomd/room"
)

const (
	newsPause = share / 2   // pause before changes are written to Redis together
	newsRetry = time.Second // the same after a failure
	newsTTL   = timeout     // how long this node's readers may take to see a write

	closeTimeout = time.Second // limits the write of Close
)

// news are this node's recent changes of rooms. They are written to the index, and kept until readers here have seen
// the write. If the node dies before the write, the next search finds them.
type news struct {
	index   *index
	life    context.Context
	timeout time.Duration
	busy    sync.WaitGroup // a timer that is set, and its write

	mu     sync.Mutex
	rooms  map[string]change // guarded by mu: by id
	count  uint64            // guarded by mu: number of changes so far
	timer  *time.Timer       // guarded by mu: nil if there is nothing to write
	closed bool              // guarded by mu
}

// Committed records r after a commit, if its updates change what the index has.
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
		Listed: Listed{ID: id, Members: members, Capacity: settings.Capacity, Closed: settings.Closed,
			Labels: settings.Labels, Epoch: at.Epoch, Version: at.Version},
		listed: members > 0 || !settings.Unused(),
	}
}

func (n *news) put(c *change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rooms == nil {
		n.rooms = make(map[string]change)
	}
	if is := n.rooms[c.ID]; is.Epoch == c.Epoch && is.Version > c.Version {
		return // a late report by a join that read the room earlier
	}
	n.rooms[c.ID] = *c
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

// unsavedLocked returns the changes that are not in Redis yet. It drops those that readers here have certainly seen.
func (n *news) unsavedLocked() (list []*change) {
	maps.DeleteFunc(n.rooms, func(_ string, c change) bool {
		return !c.saved.IsZero() && time.Since(c.saved) > newsTTL
	})
	for _, c := range n.rooms {
		if unsaved := c; c.saved.IsZero() {
			list = append(list, &unsaved)
		}
	}
	return list
}

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
		if n.rooms[c.ID] == *c {
			c.saved = now
			n.rooms[c.ID] = *c
		}
	}
	return nil
}

// since returns this node's changes that may not have been in Redis at a moment, and the number of changes so far.
func (n *news) since(moment time.Time) (own map[string]*change, count uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	own = make(map[string]*change)
	for id, c := range n.rooms {
		if recent := c; c.saved.IsZero() || !c.saved.Before(moment) {
			own[id] = &recent
		}
	}
	return own, n.count
}

// overtaken drops this node's change of a room if changed has a later version of the same epoch.
func (n *news) overtaken(changed map[string]*change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, c := range changed {
		if is := n.rooms[id]; is.Epoch == c.Epoch && is.Version < c.Version {
			delete(n.rooms, id)
		}
	}
}

func (n *news) counted() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count
}

// close writes the remaining changes. Later ones are ignored.
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
		_ = n.save(ctx) // otherwise the next search finds the changes
	}
	n.busy.Wait()
}
