package coordinator

import (
	"sync"

	"roomd/room"
)

// maxInbox is how many events a copy may be behind before it is given up.
const maxInbox = 256

// localCopy is a worker's copy of its room. While other nodes write to the room too, their
// events keep it up to date. The zero value is empty.
type localCopy struct {
	room   *room.Room // nil: not known
	events inbox
	stop   func() // ends following; nil while it does not follow
}

// follow keeps the copy up to date from now on: another node writes to the room.
func (c *localCopy) follow(feeds *feeds, id string) {
	if c.stop == nil {
		c.stop = feeds.follow(id, c.events.put)
	}
}

func (c *localCopy) unfollow() {
	if c.stop != nil {
		c.stop()
	}
}

// catchUp brings the copy to where the events that came say that the room is.
func (c *localCopy) catchUp() {
	events, missed := c.events.take()
	if c.room == nil {
		return
	}
	for _, e := range events {
		if !c.room.Follow(e) {
			missed = true
			break
		}
	}
	if missed {
		c.room = nil
	}
}

// inbox is the events of a room that its copy has not followed yet. The zero value
// is empty.
type inbox struct {
	mu     sync.Mutex
	events []*room.Event // guarded by mu
	missed bool          // guarded by mu: there were more
}

func (i *inbox) put(e *room.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.events) == maxInbox {
		i.events, i.missed = nil, true
	}
	i.events = append(i.events, e)
}

func (i *inbox) take() (events []*room.Event, missed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	events, missed = i.events, i.missed
	i.events, i.missed = nil, false
	return events, missed
}
