// Package embedded is a Redis inside this process (miniredis): for trying things out and for
// tests. Its keys expire by the clock of time.Now, which in a synctest bubble is virtual. It
// keeps nothing on disk, and no other process can reach it. Its goroutines end with Close.
package embedded

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Redis is one embedded server.
type Redis struct {
	mini *miniredis.Miniredis

	mu      sync.Mutex
	stopped bool // guarded by mu: its clock, by SetTime
}

// Start returns a new, empty server.
func Start() *Redis {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &Redis{mini: m}
}

// Options returns the options by which a client reaches the server; set the others yourself.
func (r *Redis) Options() *redis.Options {
	return &redis.Options{
		Addr: "embedded",
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			conn, err := r.mini.Dial()
			if err != nil {
				return nil, err
			}
			return r.newConn(conn), nil
		},
		// A client that waits for a connection takes a timer from a pool of the whole process, and brings it back
		// there. One that was made in a synctest bubble ends the process when it is used outside. So nobody waits.
		PoolSize: 1000,
		// They would look the address up in DNS.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// SetTime sets the server's clock and stops it: for tests of a clock that steps.
func (r *Redis) SetTime(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.mini.SetTime(now)
}

// tick sets the server's clock, which then stands until the next requests. As in Redis, a script sees one time; and
// when the clock has moved miniredis looks at every key with the next command, so that each command of a script
// would.
func (r *Redis) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.mini.SetTime(time.Now())
	}
}

// Close ends the server and its connections.
func (r *Redis) Close() { r.mini.Close() }

// conn adds the send buffer of a socket to an in-memory connection. Without a buffer, client and
// server may each wait for the other to read: miniredis answers a command before it reads the
// next, and go-redis writes to a pub/sub connection while its reader waits for the writer's
// mutex.
type conn struct {
	net.Conn // a net.Pipe
	tick     func()

	mu     sync.Mutex
	buffer []byte        // guarded by mu: not sent yet
	closed bool          // guarded by mu
	wake   chan struct{} // says that buffer or closed has changed
}

func (r *Redis) newConn(pipe net.Conn) net.Conn {
	c := &conn{Conn: pipe, tick: r.tick, wake: make(chan struct{}, 1)}
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
		c.tick()
		if _, err := c.Conn.Write(p); err != nil {
			_ = c.Close()
			return
		}
	}
}
