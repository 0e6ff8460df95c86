package lobby

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"roomd/room"
)

// List is a list of rooms, as they were a moment ago. It is shared: do not change it.
type List struct {
	// Rooms are in the order of their ids.
	Rooms []*Listed

	// Truncated says that rooms may be missing: not all that Redis has are in the index yet.
	Truncated bool

	serial uint64 // of the lists of this node

	once   sync.Once     // finds labels
	labels []room.Labels // of the rooms that let players in, each once
}

// Find returns a room, or nil.
func (l *List) Find(id string) *Listed {
	if n, found := slices.BinarySearchFunc(l.Rooms, id, compareID); found {
		return l.Rooms[n]
	}
	return nil
}

func compareID(r *Listed, id string) int { return strings.Compare(r.ID, id) }

// after returns the rooms as changes have left them.
func after(rooms []*Listed, changes map[string]*change) []*Listed {
	if len(changes) == 0 {
		return rooms
	}
	next := make([]*Listed, 0, len(rooms)+len(changes))
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		n, found := slices.BinarySearchFunc(rooms, id, compareID)
		next = append(next, rooms[:n]...)
		rooms = rooms[n:]
		c := changes[id]
		if found {
			was := rooms[0]
			rooms = rooms[1:]
			if was.Epoch == c.Epoch && was.Version > c.Version {
				next = append(next, was)
				continue
			}
			if c.Since == 0 {
				c.Since = was.Since
			}
		}
		if c.listed {
			next = append(next, &c.Listed)
		}
	}
	return append(next, rooms...)
}
