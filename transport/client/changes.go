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
	// ChangeLost says that this client is no longer a member, although it did not leave. Reason, Text and To are
	// those of the [LostError].
	ChangeLost = "lost"
)

// maxLag is how many changes a reader may lag behind. If there are more, a snapshot replaces them.
const maxLag = 1024

// Change is one change of a room. Type is one of protocol's Change constants, ChangeSnapshot or ChangeLost. A newer
// server may send other types, which a program should ignore.
type Change struct {
	protocol.Change
	// Epoch and Version are the room's after all changes of the same event; for a message, those at which it was said.
	Epoch   string
	Version uint64
	// More says that more changes of the same event follow.
	More bool
	// Ends is when the timer of a ChangeCountdown fires, by this client's monotonic clock; zero if it was cancelled.
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

// take returns the changes of a feed, and empties it. If the feed is behind, a snapshot comes first.
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

// Changes returns an iteration over the room's changes. The loop first gets a ChangeSnapshot, and then every later
// change exactly once, in order. Some versions have no change for this user, such as a message for others. The
// iteration ends when ctx ends, or when the room has ended; Err then says why. It yields no messages from before the
// loop, unless the client entered by JoinHistory or WatchHistory. Messages from the time of a lost connection, if the
// room has kept them, come after the snapshot of the reconnect, with the versions at which they were said.
//
// Iterations are independent of each other, and a room waits for none of them: if an iteration lags by more than
// 1,024 changes, a ChangeSnapshot replaces them. The loop's body may call anything, including Leave and Close. The
// iteration still yields changes that arrived before the room ended.
func (r *Room) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		f := r.subscribe()
		defer r.unsubscribe(f)
		for {
			var batch []Change
			err := r.replica.changed.await(ctx, &r.link.mu, func() bool {
				batch = r.replica.take(f)
				return len(batch) > 0 || r.err != nil
			})
			for _, c := range batch {
				if ctx.Err() != nil || !yield(c) {
					return
				}
			}
			if err != nil || len(batch) == 0 {
				return
			}
		}
	}
}

// subscribe returns a feed that starts with a snapshot. The first feed also gets the messages that were kept.
func (r *membership) subscribe() *feed {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	f := &feed{queue: append([]Change{r.replica.snapshot()}, r.replica.unread...)}
	r.replica.feeds[f] = struct{}{}
	r.replica.began, r.replica.keeps, r.replica.unread = true, false, nil
	return f
}

func (r *membership) unsubscribe(f *feed) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	delete(r.replica.feeds, f)
}
