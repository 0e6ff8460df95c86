package transport

import (
	"bytes"
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// ear is a node's network to Redis: a test can cut what the node hears events on, have
// them wait, or stop everything. Add it to the node's client as a hook.
type ear struct {
	redistest.Hook

	mu    sync.Mutex
	conns map[*earConn]struct{} // guarded by mu
	held  bool                  // guarded by mu: what Redis says of events waits
	off   bool                  // guarded by mu: all waits, both ways
	moved *sync.Cond            // on mu: what comes may go on
}

// earConn is one connection of the node. It reads from a pipe of its own, which takes
// what comes as soon as that need not wait.
type earConn struct {
	net.Conn // the pipe's near end
	raw      net.Conn
	ear      *ear

	// guarded by ear.mu
	events bool // it has subscribed
	closed bool
	come   []byte // what Redis has said
	said   []byte // what the node has said, and Redis has not heard
}

func newEar() *ear {
	e := &ear{conns: make(map[*earConn]struct{})}
	e.moved = sync.NewCond(&e.mu)
	return e
}

func (e *ear) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		c := &earConn{Conn: near, raw: raw, ear: e}
		e.mu.Lock()
		e.conns[c] = struct{}{}
		e.mu.Unlock()
		go c.take()
		go c.pass(far)
		return c, nil
	}
}

// cut breaks the connection for events. The node makes a new one a moment later.
func (e *ear) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.conns {
		if c.events {
			_ = c.raw.Close()
		}
	}
}

// hold has the events wait until free.
func (e *ear) hold() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = true
}

// stop has all wait until free, as if the node did not run.
func (e *ear) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.off = true
}

func (e *ear) free() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held, e.off = false, false
	for c := range e.conns {
		_, _ = c.raw.Write(c.said)
		c.said = nil
	}
	e.moved.Broadcast()
}

// take takes what Redis says, so that Redis never waits.
func (c *earConn) take() {
	buffer := make([]byte, 4096)
	for {
		n, err := c.raw.Read(buffer)
		c.ear.mu.Lock()
		c.come = append(c.come, buffer[:n]...)
		c.closed = c.closed || err != nil
		c.ear.moved.Broadcast()
		c.ear.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// pass passes on what has come.
func (c *earConn) pass(to net.Conn) {
	defer to.Close()
	for {
		c.ear.mu.Lock()
		for !c.closed && (len(c.come) == 0 || c.ear.off || c.ear.held && c.events) {
			c.ear.moved.Wait()
		}
		come, closed := c.come, c.closed
		c.come = nil
		c.ear.mu.Unlock()
		if closed {
			return
		}
		if _, err := to.Write(come); err != nil {
			return
		}
	}
}

func (c *earConn) Write(p []byte) (int, error) {
	c.ear.mu.Lock()
	defer c.ear.mu.Unlock()
	c.events = c.events || bytes.Contains(p, []byte("subscribe"))
	if c.ear.off {
		c.said = append(c.said, p...)
		return len(p), nil
	}
	return c.raw.Write(p)
}

func (c *earConn) Close() error {
	c.ear.mu.Lock()
	delete(c.ear.conns, c)
	c.closed = true
	c.ear.moved.Broadcast()
	c.ear.mu.Unlock()
	_ = c.raw.Close()
	return c.Conn.Close()
}
