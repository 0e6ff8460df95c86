package transport

import (
	"bytes"
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// redisNet is a node's network to Redis. A test can break the connection for events, delay
// the events, or delay everything. Add it to the node's client as a hook.
type redisNet struct {
	redistest.Hook

	mu      sync.Mutex
	conns   map[*redisNetConn]struct{} // guarded by mu
	held    bool                       // guarded by mu: events from Redis wait
	stopped bool                       // guarded by mu: all waits, both ways
	changed *sync.Cond                 // on mu: bytes came, or may pass again
}

// redisNetConn is one connection of the node. The node reads from a pipe, to which pass
// copies what has come from Redis.
type redisNetConn struct {
	net.Conn // the pipe's near end
	raw      net.Conn
	net      *redisNet

	// Guarded by net.mu.
	events   bool // it has subscribed
	closed   bool
	fromNode []byte // not sent to Redis yet
	toNode   []byte // not passed to the node yet
}

func newRedisNet() *redisNet {
	n := &redisNet{conns: make(map[*redisNetConn]struct{})}
	n.changed = sync.NewCond(&n.mu)
	return n
}

func (n *redisNet) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		c := &redisNetConn{Conn: near, raw: raw, net: n}
		n.mu.Lock()
		n.conns[c] = struct{}{}
		n.mu.Unlock()
		go c.receive()
		go c.pass(far)
		return c, nil
	}
}

// cutEvents breaks the connection for events. The node makes a new one a moment later.
func (n *redisNet) cutEvents() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.events {
			_ = c.raw.Close()
		}
	}
}

// loseEvents breaks the connection for events, and drops those that are held.
func (n *redisNet) loseEvents() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.events {
			c.toNode = nil
			_ = c.raw.Close()
		}
	}
}

// holdEvents delays the events until resume.
func (n *redisNet) holdEvents() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = true
}

// stop delays everything until resume, as if the node did not run.
func (n *redisNet) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
}

func (n *redisNet) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held, n.stopped = false, false
	for c := range n.conns {
		_, _ = c.raw.Write(c.fromNode)
		c.fromNode = nil
	}
	n.changed.Broadcast()
}

// receive reads from Redis all the time, so that Redis never waits.
func (c *redisNetConn) receive() {
	buffer := make([]byte, 4096)
	for {
		n, err := c.raw.Read(buffer)
		c.net.mu.Lock()
		c.toNode = append(c.toNode, buffer[:n]...)
		c.closed = c.closed || err != nil
		c.net.changed.Broadcast()
		c.net.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// pass passes what was received to the node, when it may pass.
func (c *redisNetConn) pass(to net.Conn) {
	defer to.Close()
	for {
		c.net.mu.Lock()
		for !c.closed && (len(c.toNode) == 0 || c.net.stopped || c.net.held && c.events) {
			c.net.changed.Wait()
		}
		received, closed := c.toNode, c.closed
		c.toNode = nil
		c.net.mu.Unlock()
		if closed {
			return
		}
		if _, err := to.Write(received); err != nil {
			return
		}
	}
}

func (c *redisNetConn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.events = c.events || bytes.Contains(p, []byte("subscribe"))
	if c.net.stopped {
		c.fromNode = append(c.fromNode, p...)
		return len(p), nil
	}
	return c.raw.Write(p)
}

func (c *redisNetConn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.closed = true
	c.net.changed.Broadcast()
	c.net.mu.Unlock()
	_ = c.raw.Close()
	return c.Conn.Close()
}
