package client

import (
	"context"
	"iter"
)

// State says how a client is connected.
type State int

// The states of a [Client]. It begins as Connecting, and ends as Lost.
const (
	Connecting   State = iota // the first connection is not made yet
	Connected                 // there is a connection; rooms may still be on their way back
	Reconnecting              // the connection has ended, and the client tries to get another
	Lost                      // the client has ended for good: Err says why
	Degraded                  // there is a connection, to a server that cannot reach Redis: rooms stand still
)

// String returns the name in lower case.
func (s State) String() string {
	return [...]string{"connecting", "connected", "reconnecting", "lost", "degraded"}[s]
}

// State returns how the client is connected.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// States returns an iteration over the client's states, which begins with the present one. A state
// that is over before the reader looks is left out. The iteration ends behind Lost, or when ctx ends.
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

// Err returns nil as long as Done is open, and then why the client has ended. It is [ErrClosed]: a
// [*CloseError] says with which code, and 1000 is that of Close. It is [ErrUnauthorized], too, if the
// server accepts no token.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// notifyLocked wakes those who wait for something to change.
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
