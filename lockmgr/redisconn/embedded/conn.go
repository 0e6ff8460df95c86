package embedded

import (
	"net"
	"sync"
)

// conn adds the send buffer of a socket to an in-memory connection. Without a buffer, client and
// server may each wait for the other to read: miniredis answers a command before it reads the
// next, and go-redis writes to a pub/sub connection while its reader waits for the writer's
// mutex.
type conn struct {
	net.Conn // a net.Pipe

	mu     sync.Mutex
	buffer []byte        // guarded by mu: not sent yet
	closed bool          // guarded by mu
	wake   chan struct{} // says that buffer or closed has changed
}

func newConn(pipe net.Conn) net.Conn {
	c := &conn{Conn: pipe, wake: make(chan struct{}, 1)}
	go c.send() // ends with Close, or when the server hangs up
	return c
}

// Write never blocks.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.buffer = append(c.buffer, p...)
	c.signalLocked()
	return len(p), nil
}

// Close sends nothing more and closes both directions.
func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.signalLocked()
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) signalLocked() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conn) send() {
	for range c.wake {
		c.mu.Lock()
		p, closed := c.buffer, c.closed
		c.buffer = nil
		c.mu.Unlock()
		if closed {
			return
		}
		if _, err := c.Conn.Write(p); err != nil {
			_ = c.Close()
			return
		}
	}
}
