package transport

import (
	"context"
	"slices"
	"sync"
)

// turns let either a request of the client or a follow change what the session has to do with a
// room, one after the other.
type turns struct {
	mu      *sync.Mutex // the session's
	changed sync.Cond   // on mu

	serving   string             // guarded by mu: the room of the request that runs; "" if none does
	following []string           // guarded by mu: the rooms of the follows that run
	ctx       context.Context    // guarded by mu: of the follows; nil before the first
	cancel    context.CancelFunc // guarded by mu
}

func (t *turns) init(mu *sync.Mutex) { t.mu, t.changed.L = mu, mu }

// beginRequest waits until no follow runs in the room. Only one request runs at a time.
func (t *turns) beginRequest(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for slices.Contains(t.following, id) {
		t.changed.Wait()
	}
	t.serving = id
}

func (t *turns) endRequest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serving = ""
	t.changed.Broadcast()
}

// beginFollow waits until neither a request nor another follow runs in the room.
func (t *turns) beginFollow(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.serving == id || slices.Contains(t.following, id) {
		t.changed.Wait()
	}
	t.following = append(t.following, id)
}

func (t *turns) endFollow(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.following = slices.DeleteFunc(t.following, func(other string) bool { return other == id })
	t.changed.Broadcast()
}

// contextLocked returns the context of the session's follows, which ends with life, and when the
// session is closed.
func (t *turns) contextLocked(life context.Context) context.Context {
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancel(life)
	}
	return t.ctx
}

// closeLocked ends the pauses of the follows.
func (t *turns) closeLocked() {
	if t.cancel != nil {
		t.cancel()
	}
}
