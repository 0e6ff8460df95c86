package client

import (
	"context"
	"iter"
	"sync"
)

// State says how a client is connected.
type State int

// The states of a [Client]. It begins as Connecting, and ends as Lost.
const (
	Connecting   State = iota // the first connection is not made yet
	Connected                 // there is a connection; rooms may still be on their way back
	Reconnecting              // the connection has ended, and the client tries to get another
	Lost                      // the client has ended for good: Err says why
)

// String returns the name in lower case.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Connected:
		return "connected"
	case Reconnecting:
		return "reconnecting"
	}
	return "lost"
}

// status is the state of a client, for those who wait until it is another.
type status struct {
	done chan struct{} // closed when the client is Lost

	mu      sync.Mutex
	state   State         // guarded by mu
	conn    *Conn         // guarded by mu: the present connection, nil if there is none
	last    error         // guarded by mu: why the last attempt to connect failed
	err     error         // guarded by mu: why the client is Lost
	changed chan struct{} // guarded by mu: closed with the next change here, or of a room's restoring
}

func newStatus() *status {
	return &status{done: make(chan struct{}), changed: make(chan struct{})}
}

func (s *status) connected(conn *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.conn, s.last = Connected, conn, nil
	s.notifyLocked()
}

func (s *status) disconnected(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.conn, s.last = Reconnecting, nil, why
	s.notifyLocked()
}

// attemptFailed records why there is no connection yet.
func (s *status) attemptFailed(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = why
}

func (s *status) lost(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.conn, s.err = Lost, nil, why
	close(s.done)
	s.notifyLocked()
}

func (s *status) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyLocked()
}

func (s *status) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// moment is a status at one time.
type moment struct {
	state     State
	conn      *Conn
	last, err error
	changed   <-chan struct{}
}

func (s *status) now() moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return moment{s.state, s.conn, s.last, s.err, s.changed}
}

// State returns how the client is connected.
func (c *Client) State() State { return c.status.now().state }

// States returns an iteration over the client's states, which begins with the present one. A state
// that is over before the reader looks is left out. The iteration ends behind Lost, or when ctx ends.
func (c *Client) States(ctx context.Context) iter.Seq[State] {
	return func(yield func(State) bool) {
		for last, first := Lost, true; ctx.Err() == nil; {
			now := c.status.now()
			if first || now.state != last {
				first, last = false, now.state
				if !yield(last) || last == Lost {
					return
				}
				continue
			}
			select {
			case <-now.changed:
			case <-ctx.Done():
			}
		}
	}
}

// Done returns a channel that is closed when the client has ended for good.
func (c *Client) Done() <-chan struct{} { return c.status.done }

// Err returns nil as long as Done is open, and then why the client has ended. It is [ErrClosed]: a
// [*CloseError] says with which code, and 1000 is that of Close. It is [ErrUnauthorized], too, if the
// server accepts no token.
func (c *Client) Err() error { return c.status.now().err }
