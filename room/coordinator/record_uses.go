package coordinator

import (
	"context"
	"sync"
)

// recordUses say which of this node's records of rooms are relied on, and which are being
// deleted. Any number of moves may rely on the records of one room at once. The zero value is
// ready to use.
type recordUses struct {
	mu    sync.Mutex
	rooms map[string]*recordUse // guarded by mu: those that are relied on, or being deleted
}

// recordUse is guarded by recordUses.mu.
type recordUse struct {
	moves   int           // that rely on the records
	deleted chan struct{} // closed when the records have been deleted; nil while nobody does that
}

// use makes sure that nobody on this node deletes its records of a room until end is called.
// While they are being deleted it waits. It fails with the cause of ctx.
func (u *recordUses) use(ctx context.Context, id string) (end func(), err error) {
	for {
		deleted := u.tryUse(id)
		if deleted == nil {
			return func() { u.end(id) }, nil
		}
		select {
		case <-deleted:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryUse returns nil if the records can be relied on now, else what to wait for.
func (u *recordUses) tryUse(id string) (deleted <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.rooms[id]
	switch {
	case one == nil:
		one = new(recordUse)
		if u.rooms == nil {
			u.rooms = make(map[string]*recordUse)
		}
		u.rooms[id] = one
	case one.deleted != nil:
		return one.deleted
	}
	one.moves++
	return nil
}

func (u *recordUses) end(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.rooms[id]; one.moves > 1 {
		one.moves--
		return
	}
	delete(u.rooms, id)
}

// delete reports whether the records of a room may be deleted now: no move relies on them. Then
// the caller has to call end.
func (u *recordUses) delete(id string) (end func(), free bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rooms[id] != nil {
		return nil, false
	}
	one := &recordUse{deleted: make(chan struct{})}
	if u.rooms == nil {
		u.rooms = make(map[string]*recordUse)
	}
	u.rooms[id] = one
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.rooms, id)
		close(one.deleted)
	}, true
}
