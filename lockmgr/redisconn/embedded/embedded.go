// Package embedded is a Redis inside this process (miniredis), for tests and for trying things out. Its keys
// expire by the clock of time.Now, which is virtual in a synctest bubble. It keeps nothing on disk, and no
// other process can reach it. Its goroutines end with Close.
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

// Redis is an embedded server.
type Redis struct {
	mini *miniredis.Miniredis

	mu      sync.Mutex
	stopped bool // guarded by mu: SetTime has stopped its clock
}

// Start returns a new, empty server.
func Start() *Redis {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &Redis{mini: m}
}

// Options returns the options of a client of this server. Set the other fields yourself.
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
		// Large, so that no client waits for a connection. A client that waits puts its timer into a pool of
		// the whole process; a timer from a synctest bubble crashes the process when it is used outside.
		PoolSize: 1000,
		// Maintenance notifications would look up the address in DNS.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// SetTime sets the server's clock and stops it, for tests of a clock that steps.
func (r *Redis) SetTime(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.mini.SetTime(now)
}

// tick sets the server's clock to now, unless SetTime has stopped it. The clock then stands still until the next
// request: as in Redis, a script sees only one time. That is also faster, because miniredis checks all keys at the
// first command after its clock has moved.
func (r *Redis) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.mini.SetTime(time.Now())
	}
}

// Close ends the server and its connections.
func (r *Redis) Close() { r.mini.Close() }

// conn adds the send buffer of a socket to an in-memory connection. Without the buffer, client and server may
// each wait for the other to read: miniredis answers a command before it reads the next one, and while go-redis
// writes to a pub/sub connection, it has locked a mutex that the connection's reader needs.
type conn struct {
	net.Conn // a net.Pipe
	tick     func()

	mu     sync.Mutex
	buffer []byte        // guarded by mu: not sent yet
	closed bool          // guarded by mu
	wake   chan struct{} // signals that buffer or closed has changed
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

// Close drops the bytes that are not sent yet, and closes both directions.
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
