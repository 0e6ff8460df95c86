package client

import (
	"context"
	"iter"
	"slices"
	"time"

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
	// Epoch and Version are the room's after the change, and after the others of the same event; of a message, at
	// which it was said.
	Epoch   string
	Version uint64
	// More says that others of the same event follow.
	More bool
	// Ends is when the timer of a ChangeCountdown fires by this client's monotonic clock; zero if it was cancelled.
	Ends time.Time
	// View is the room at that version. Only with ChangeSnapshot; nil with others.
	View *View
}

// feed holds the changes that one iteration has not read yet.
type feed struct {
	queue  []Change
	behind bool // a snapshot comes first, in place of what the queue could not hold
}

// put adds a change. A snapshot shows all of what the queue cannot hold, but that the seat was lost.
func (f *feed) put(c Change) {
	if !f.behind && len(f.queue) >= maxLag {
		f.behind = true
		f.queue = slices.DeleteFunc(f.queue, func(c Change) bool { return c.Type != ChangeLost })
	}
	if !f.behind || c.Type == ChangeLost {
		f.queue = append(f.queue, c)
	}
}

// take empties a feed. A reader who is behind gets a snapshot first.
func (r *replica) take(f *feed) []Change {
	batch := f.queue
	if f.behind {
		batch = append([]Change{r.snapshot()}, batch...)
	}
	*f = feed{}
	return batch
}

func (r *replica) snapshot() Change {
	view := r.share()
	return Change{Change: protocol.Change{Type: ChangeSnapshot}, Epoch: view.Epoch, Version: view.Version, View: &view}
}

func (r *replica) tell(c Change) {
	for f := range r.feeds {
		f.put(c)
	}
	if r.keeps && c.Type == protocol.ChangeMessage {
		r.unread = append(r.unread[max(0, len(r.unread)-maxLag+1):], c)
	}
}

// next returns a channel that is closed with the next change.
func (r *replica) next() <-chan struct{} {
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// notify wakes those who wait for the next change.
func (r *replica) notify() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Changes returns an iteration over what happens in the room. It begins, when the loop does, with a ChangeSnapshot,
// and then yields every change behind it exactly once, in order. A version may pass without a change, such as a
// message for others. It ends when the room has ended, and then Err says why, or when ctx ends. What was said before
// the loop began is not in it, unless the room was joined by JoinHistory. What was said while the connection was
// lost, and the room has kept, comes behind the snapshot of the reconnect, with the versions at which it was said.
//
// Iterations are independent of each other, and a room waits for none of them: one that lags by
// more than 1,024 changes gets a ChangeSnapshot in their place. The body of the loop may call
// anything, Leave and Close included. Changes that have come before the room ended are still yielded.
func (r *Room) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		f := r.subscribe()
		defer r.unsubscribe(f)
		for {
			batch, ended, changed := r.take(f)
			for _, c := range batch {
				if ctx.Err() != nil || !yield(c) {
					return
				}
			}
			if len(batch) > 0 {
				continue // there may be more by now
			}
			if ended {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// subscribe returns a feed that begins with a snapshot, and with what was kept for the first one.
func (r *Room) subscribe() *feed {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	f := &feed{queue: append([]Change{r.replica.snapshot()}, r.replica.unread...)}
	r.replica.feeds[f] = struct{}{}
	r.replica.began, r.replica.keeps, r.replica.unread = true, false, nil
	return f
}

func (r *Room) unsubscribe(f *feed) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	delete(r.replica.feeds, f)
}

// take returns what the feed has, whether the room has ended, so that no more will come, and a
// channel that is closed when more may have come.
func (r *Room) take(f *feed) (batch []Change, ended bool, changed <-chan struct{}) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.replica.take(f), r.err != nil, r.replica.next()
}

// awaitShown waits until the room shows what a request has done, or ctx ends: the reply may come
// before the event. It does not wait for a version of another epoch.
func (r *Room) awaitShown(ctx context.Context, reply *protocol.Reply) {
	behind := func() (bool, <-chan struct{}) {
		r.client.mu.Lock()
		defer r.client.mu.Unlock()
		v := &r.replica.view
		return v.Epoch == reply.Epoch && v.Version < reply.Version && r.err == nil, r.replica.next()
	}
	for is, changed := behind(); is; is, changed = behind() {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
