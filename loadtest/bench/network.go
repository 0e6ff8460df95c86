package bench

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// networkDelay is how long everything is under way between a node and Redis, each way, in the workloads of the network.
const networkDelay = 250 * time.Microsecond

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// slow returns a dialer whose connections have that delay, each way.
func slow(dial dialer, delay time.Duration) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &slowConn{Conn: conn, delay: 2 * delay, alarm: newAlarm()}, nil
	}
}

// slowConn is a connection with a delay. What is read comes late by both ways, what is written is not late. If all
// connections are so, Redis' clock is ahead by one way, and nobody can tell the difference. So a writer needs no
// queue. Nor does a reader need a goroutine: while Read waits until the oldest bytes are due, it goes on to read, and
// notes when others came, so that of what comes close together nothing is late twice.
type slowConn struct {
	net.Conn
	delay time.Duration

	mu       sync.Mutex
	alarm    *alarm    // guarded by mu; nil when closed
	deadline time.Time // guarded by mu; of the reader
	applied  time.Time // guarded by mu; the deadline that the connection below has
	until    time.Time // guarded by mu; when Read must look again, zero if it need not

	// Used by the reader only.
	bytes   []byte // that came and were not read
	arrived []arrival
	broken  error // what came after them
}

// arrival is what one read of the connection gave.
type arrival struct {
	n   int
	due time.Time
}

// Read returns bytes that are due.
func (c *slowConn) Read(p []byte) (int, error) {
	for {
		var due time.Time
		if len(c.arrived) > 0 {
			if due = c.arrived[0].due; c.broken != nil || !time.Now().Before(due) {
				return c.take(p), nil
			}
		} else if c.broken != nil {
			return 0, c.broken
		}
		if err := c.receive(due); err != nil {
			return 0, err
		}
	}
}

// take moves bytes of the oldest arrival to p.
func (c *slowConn) take(p []byte) int {
	oldest := &c.arrived[0]
	n := copy(p, c.bytes[:oldest.n])
	if oldest.n -= n; oldest.n == 0 {
		c.arrived = append(c.arrived[:0], c.arrived[1:]...)
	}
	c.bytes = append(c.bytes[:0], c.bytes[n:]...)
	return n
}

// receive waits for more bytes, until a moment if it is not zero. It returns an error if the reader's deadline is over.
func (c *slowConn) receive(until time.Time) error {
	c.mu.Lock()
	c.until = until
	c.applyLocked()
	if !until.IsZero() && c.alarm != nil {
		c.alarm.set(until)
	}
	c.mu.Unlock()
	if len(c.bytes) == cap(c.bytes) {
		c.bytes = append(c.bytes, make([]byte, 4096)...)[:len(c.bytes)]
	}
	n, err := c.Conn.Read(c.bytes[len(c.bytes):cap(c.bytes)])
	now := time.Now()
	if n > 0 {
		c.bytes = c.bytes[:len(c.bytes)+n]
		c.arrived = append(c.arrived, arrival{n, now.Add(c.delay)})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Time{}
	switch {
	case err == nil, !until.IsZero() && !now.Before(until): // Read looks again; what is due counts, however late this process is
	case !errors.Is(err, os.ErrDeadlineExceeded):
		c.broken = err
	case !c.deadline.IsZero() && !now.Before(c.deadline):
		return err
	}
	return nil
}

// applyLocked gives the connection below the deadline or the moment to look again, whichever is first.
func (c *slowConn) applyLocked() {
	first := c.deadline
	if first.IsZero() || !c.until.IsZero() && c.until.Before(first) {
		first = c.until
	}
	if !first.Equal(c.applied) {
		_ = c.Conn.SetReadDeadline(first)
		c.applied = first
	}
}

// SetReadDeadline sets the deadline of Read.
func (c *slowConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.applyLocked()
	return nil
}

// SetDeadline sets the deadlines of Read and Write.
func (c *slowConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close closes the connection.
func (c *slowConn) Close() error {
	c.mu.Lock()
	if c.alarm != nil {
		c.alarm.close()
		c.alarm = nil
	}
	c.mu.Unlock()
	return c.Conn.Close()
}
