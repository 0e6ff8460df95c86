package coordinator

import (
	"slices"
	"sync"
)

// roomLocks are locks of rooms within this process. The zero value is ready to use.
type roomLocks struct {
	mu    sync.Mutex
	rooms map[string]*roomLock // guarded by mu: those that are held, or waited for
}

type roomLock struct {
	sync.Mutex
	users int // guarded by roomLocks.mu: who hold it, or wait
}

// hold takes the locks of rooms, in the order of their ids, and returns what gives them back.
func (l *roomLocks) hold(ids ...string) (release func()) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	held := make([]*roomLock, len(ids))
	for i, id := range ids {
		l.mu.Lock()
		one := l.rooms[id]
		if one == nil {
			if l.rooms == nil {
				l.rooms = make(map[string]*roomLock)
			}
			one = new(roomLock)
			l.rooms[id] = one
		}
		one.users++
		l.mu.Unlock()
		one.Lock()
		held[i] = one
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, one := range held {
			one.Unlock()
			if one.users--; one.users == 0 {
				delete(l.rooms, ids[i])
			}
		}
	}
}
