package client

import (
	"context"
	"iter"

	"roomd/transport/protocol"
)

// Types of a [Change] beside protocol's.
const (
	// ChangeSnapshot says that the room is as View has it: at the beginning of an iteration, after a
	// reconnect, and where changes were missed.
	ChangeSnapshot = "snapshot"
	// ChangeLost says that this client is a member no more, although it did not leave: Reason, Text
	// and To are those of the [LostError].
	ChangeLost = "lost"
)

// maxLag is by how many changes a reader may lag behind. Then one snapshot takes their place.
const maxLag = 1024

// Change is one thing that happened to a room. Type is one of protocol's Change constants,
// ChangeSnapshot or ChangeLost; a newer server may send others, which a program ignores.
type Change struct {
	protocol.Change
	// Epoch and Version are the room's after the change, and after the others of the same event.
	Epoch   string
	Version uint64
	// View is the room at that version. Only with ChangeSnapshot; nil with others.
	View *View
}

// feed holds the changes that one iteration has not read yet. The room's mutex guards it.
type feed struct {
	queue  []Change
	behind bool          // a snapshot comes first, in place of what the queue could not hold
	wake   chan struct{} // has a value if there may be something to read; closed never
}

// newFeed returns a feed that begins with a snapshot.
func newFeed() *feed {
	return &feed{behind: true, wake: make(chan struct{}, 1)}
}

func (f *feed) put(c Change) {
	switch {
	case f.behind: // the snapshot will have it
		if c.Type == ChangeLost {
			f.queue = append(f.queue, c)
		}
	case len(f.queue) >= maxLag:
		f.queue, f.behind = nil, true
	default:
		f.queue = append(f.queue, c)
	}
	f.signal()
}

// signal wakes the reader.
func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take empties the feed. snapshot makes the change that a reader who is behind gets first.
func (f *feed) take(snapshot func() Change) []Change {
	batch := f.queue
	if f.behind {
		batch = append([]Change{snapshot()}, batch...)
	}
	f.queue, f.behind = nil, false
	return batch
}

// Changes returns an iteration over what happens in the room. It begins, when the loop does, with a
// ChangeSnapshot, and then yields every change behind it exactly once, in order. It ends when the room
// has ended, and then Err says why, or when ctx ends. What was said before the loop began is not in it.
//
// Iterations are independent of each other, and a room waits for none of them: one that lags by
// more than 1,024 changes gets a ChangeSnapshot in their place. The body of the loop may call
// anything, Leave and Close included. Changes that have come before the room ended are still yielded.
func (r *Room) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		f := r.subscribe()
		defer r.unsubscribe(f)
		for {
			batch, ended := r.take(f)
			for _, c := range batch {
				if ctx.Err() != nil || !yield(c) {
					return
				}
			}
			if ended && len(batch) == 0 {
				return
			}
			select {
			case <-f.wake:
			case <-r.done:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (r *Room) subscribe() *feed {
	f := newFeed()
	r.rooms.mu.Lock()
	defer r.rooms.mu.Unlock()
	r.feeds[f] = struct{}{}
	return f
}

func (r *Room) unsubscribe(f *feed) {
	r.rooms.mu.Lock()
	defer r.rooms.mu.Unlock()
	delete(r.feeds, f)
}

// take returns what the feed has, and whether the room has ended, so that no more will come.
func (r *Room) take(f *feed) (batch []Change, ended bool) {
	r.rooms.mu.Lock()
	defer r.rooms.mu.Unlock()
	return f.take(r.snapshotLocked), r.err != nil
}
