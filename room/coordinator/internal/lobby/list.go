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

	serial  uint64   // of the lists of this node
	changed []string // in what it differs from the one before

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

// since returns the ids of the rooms in which l differs from an earlier list.
func (l *List) since(earlier *List) []string {
	if earlier.serial+1 == l.serial {
		return l.changed
	}
	return l.differsIn(earlier)
}

// differsIn compares two lists.
func (l *List) differsIn(other *List) (ids []string) {
	a, b := l.Rooms, other.Rooms
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].ID < b[0].ID:
			ids, a = append(ids, a[0].ID), a[1:]
		case len(a) == 0 || b[0].ID < a[0].ID:
			ids, b = append(ids, b[0].ID), b[1:]
		default:
			if a[0] != b[0] && *a[0] != *b[0] {
				ids = append(ids, a[0].ID)
			}
			a, b = a[1:], b[1:]
		}
	}
	return ids
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
			if c.Since == 0 && c.listed {
				is := *c // other lists have c
				is.Since, c = was.Since, &is
			}
		}
		if c.listed {
			next = append(next, &c.Listed)
		}
	}
	return append(next, rooms...)
}
