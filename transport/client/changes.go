package client

import (
	"context"
	"iter"
	"slices"
	"time"

	"roomd/transport/protocol"
)

// Types of a [Change] in addition to protocol's.
const (
	// ChangeSnapshot says that View shows the room: at the start of an iteration, after a reconnect, and where
	// changes were missed.
	ChangeSnapshot = "snapshot"
	// ChangeLost says that this client is no longer a member, although it did not leave. Reason, Text and To
	// are those of the [LostError].
	ChangeLost = "lost"
)

// maxLag is how many changes a reader may lag behind. A snapshot then replaces them.
const maxLag = 1024

// Change is one change of a room. Type is one of protocol's Change constants, ChangeSnapshot or ChangeLost. A
// newer server may send other types, which a program should ignore.
type Change struct {
	protocol.Change
	// Epoch and Version are the room's after all changes of the same event; for a message, those at which it
	// was said.
	Epoch   string
	Version uint64
	// More says that more changes of the same event follow.
	More bool
	// Ends is when the timer of a ChangeCountdown fires, by this client's monotonic clock; zero if it was
	// cancelled.
	Ends time.Time
	// View is the room at that version, with ChangeSnapshot; otherwise nil.
	View *View
}

// feed has the changes that an iteration has not read yet.
type feed struct {
	queue  []Change
	behind bool // a snapshot comes first, because the queue was full
}

// put adds a change. If the queue is full, a snapshot replaces all changes except the loss of the seat.
func (f *feed) put(c Change) {
	if !f.behind && len(f.queue) >= maxLag {
		f.behind = true
		f.queue = slices.DeleteFunc(f.queue, func(c Change) bool { return c.Type != ChangeLost })
	}
	if !f.behind || c.Type == ChangeLost {
		f.queue = append(f.queue, c)
	}
}

// take empties a feed. If the feed is behind, a snapshot comes first.
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

// next returns a channel that is closed at the next change.
func (r *replica) next() <-chan struct{} {
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// notify closes the channel of next.
func (r *replica) notify() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Changes returns an iteration over the room's changes. The loop first gets a ChangeSnapshot, and then every
// later change exactly once, in order. Some versions have no change for this user, such as a message for
// others. The iteration ends when ctx ends, or when the room has ended; Err then says why. It does not have
// messages from before the loop, unless the client entered by JoinHistory or WatchHistory. Messages from the
// time of a lost connection, if the room has kept them, come after the snapshot of the reconnect, with the
// versions at which they were said.
//
// Iterations are independent of each other, and a room waits for none of them: if an iteration lags by more
// than 1,024 changes, a ChangeSnapshot replaces them. The loop's body may call anything, including Leave and
// Close. The iteration still yields changes that arrived before the room ended.
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
				continue // there may be more now
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

// subscribe returns a feed that starts with a snapshot. The first feed also gets the messages that were kept.
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

// take empties the feed. It also returns whether the room has ended, so that nothing follows, and a channel
// that is closed when more may follow.
func (r *Room) take(f *feed) (batch []Change, ended bool, changed <-chan struct{}) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.replica.take(f), r.err != nil, r.replica.next()
}

// awaitShown waits until the room shows the effect of a request, or ctx ends, because the reply may come before
// the event. It does not wait for a version of another epoch.
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
