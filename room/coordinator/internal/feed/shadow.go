package feed

import (
	"context"
	"time"

	"roomd/room"
)

// eventLag is how long Meet waits for the event of a version that Redis has.
const eventLag = 100 * time.Millisecond

// Shadow returns a Replica of a room that is watched here, otherwise nil. It does not keep the room watched.
func (fs *Feeds) Shadow(id string) *Replica {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.rooms[id]
	if f == nil {
		return nil
	}
	r := &Replica{feed: f, news: make(chan struct{}, 1)}
	w := &watch{fn: r.put, aside: true}
	r.stop = func() { f.remove(w) }
	f.add(w)
	return r
}

// Has reports whether the feed of a Shadow is still open.
func (fs *Feeds) Has(r *Replica) bool { return fs.has(r.feed) }

// Active waits until the subscription is active.
func (r *Replica) Active(ctx context.Context) error { return r.feed.sub.Wait(ctx) }

// Behind reports whether events were missed and a snapshot is under way.
func (r *Replica) Behind() bool {
	_, syncing := r.feed.position()
	return syncing
}

// Adopt sets Room to a room read since Use, unless events were lost since.
func (r *Replica) Adopt(is *room.Room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.missed {
		r.Room = is
	}
}

// Meet applies events until Room is as new as a room read since Use (is), or eventLag is over. at is Room's position.
// differences says how the two differ if both are at the same commit. known is false if Room is nil.
func (r *Replica) Meet(ctx context.Context, is *room.Room) (at room.Position, differences string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, eventLag)
	defer cancel()
	for {
		r.mu.Lock()
		r.catchUpLocked(is)
		r.mu.Unlock()
		if r.Room == nil {
			return at, "", false
		}
		at = r.Room.Position
		if at.Is(is.Position) {
			differences = r.Room.Differences(is)
		}
		if !at.Precedes(is.Position) {
			return at, differences, true
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return at, differences, true
		}
	}
}

// Gap describes the last gap between two events that was found since the last call; "" if none was.
func (r *Replica) Gap() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	gap := r.gap
	r.gap = ""
	return gap
}
