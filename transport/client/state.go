package client

import (
	"context"
	"iter"
)

// State is the state of a client's connection.
type State int

// The states of a [Client]. The first is Connecting, and the last Lost.
const (
	Connecting   State = iota // the first connection is not made yet
	Connected                 // there is a connection; rooms may still be restored
	Reconnecting              // the connection has ended, and the client tries to make another
	Lost                      // the client has ended for good: Err says why
	Degraded                  // there is a connection, but its server cannot reach Redis: rooms stand still
)

// String returns the name in lower case.
func (s State) String() string {
	return [...]string{"connecting", "connected", "reconnecting", "lost", "degraded"}[s]
}

// State returns the current state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// States returns an iteration over the client's states, starting with the current one. A slow reader skips
// states. The iteration ends after Lost, or when ctx ends.
func (c *Client) States(ctx context.Context) iter.Seq[State] {
	return func(yield func(State) bool) {
		for last, state := State(-1), State(-1); last != Lost && ctx.Err() == nil; last = state {
			changed := func() bool { state = c.state; return state != last }
			if c.await(ctx, changed) != nil || !yield(state) {
				return
			}
		}
	}
}

// Done returns a channel that is closed when the client has ended for good.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns nil as long as Done is open, and then the reason for the end. It is [ErrClosed]: a [*CloseError]
// has the code, which is 1000 after Close. It is also [ErrUnauthorized] if the server accepts no token.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// notifyLocked wakes all that wait for a change of the client.
func (c *Client) notifyLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// connectedLocked returns the state of a client that has a connection.
func (c *Client) connectedLocked() State {
	if c.degraded {
		return Degraded
	}
	return Connected
}
