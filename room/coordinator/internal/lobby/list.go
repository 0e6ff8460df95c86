package lobby

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"roomd/room"
)

// List is a list of rooms, which may be slightly old. It is shared: do not change it.
type List struct {
	// Rooms are sorted by id.
	Rooms []*Listed

	// Truncated: rooms may be missing, because the index is not complete yet.
	Truncated bool

	serial  uint64   // number of this list among the node's
	changed []string // ids of the rooms that differ from the previous list

	once   sync.Once     // computes labels
	labels []room.Labels // distinct labels of the rooms that admit players
}

// Find returns a room, or nil.
func (l *List) Find(id string) *Listed {
	if n, found := slices.BinarySearchFunc(l.Rooms, id, compareID); found {
		return l.Rooms[n]
	}
	return nil
}

func (l *List) since(earlier *List) []string {
	if earlier.serial+1 == l.serial {
		return l.changed
	}
	return l.differsIn(earlier)
}

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
		is := &c.Listed
		if found {
			was := rooms[0]
			rooms = rooms[1:]
			if was.Epoch == c.Epoch && was.Version > c.Version {
				next = append(next, was)
				continue
			}
			if c.Since == 0 && c.listed {
				copied := c.Listed // other lists share c
				copied.Since, is = was.Since, &copied
			}
		}
		if c.listed {
			next = append(next, is)
		}
	}
	return append(next, rooms...)
}
