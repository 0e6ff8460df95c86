package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"roomd/room/ratelog"
	"roomd/transport/internal/pending"
)

// limits are how many connections a node keeps open.
type limits struct {
	clients int // WebSockets; further ones get HTTP 503
	total   int // all, with those that are not WebSockets (yet)
}

// limitsFor returns the limits of a node for that many clients, whose process may have that many files open; 0 files
// stands for any number. Of too few files it keeps some for Redis and the process itself.
func limitsFor(clients, files int) (limits, error) {
	l := limits{clients, clients + spareFor(clients)}
	if files == 0 {
		return l, nil
	}
	own := max(16, min(files/2, max(128, min(files/8, 1024))))
	most := files - own
	if l.total <= most {
		return l, nil
	}
	if l = (limits{most - spareFor(most), most}); l.clients < 1 {
		return l, fmt.Errorf("the process may have %d files open, which leaves none for clients: raise the limit (ulimit -n)", files)
	}
	return l, nil
}

// spareFor returns how many connections that are not WebSockets there may be beside n.
func spareFor(n int) int { return max(4, min(n/8, 1024)) }

// listener bounds how many connections are open. Beyond that, those that are not WebSockets yet
// make room, as [pending.Set] says whose. A game client becomes one within a few round trips, so
// connections that are only held open, also in the middle of a TLS handshake, keep nobody out.
type listener struct {
	*net.TCPListener
	evicted *ratelog.Log
	timeout time.Duration // of a request
	late    func()        // called when a client takes longer; nil is not called

	mu      sync.Mutex
	max     int                      // guarded by mu
	open    int                      // guarded by mu
	pending pending.Set[*connection] // guarded by mu: those that are not WebSockets
}

// connection is one that a listener counts.
type connection struct {
	*net.TCPConn
	listener *listener

	// Guarded by listener.mu.
	place  *pending.Entry[*connection] // nil for a WebSocket
	since  time.Time                   // when the present request began; zero between two
	closed bool
}

// Read counts a client that takes too long. net/http also uses deadlines to end its own reads.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.isLate() {
		c.listener.late()
	}
	return n, err
}

// isLate reports, once, whether the present request has taken longer than it may.
func (c *connection) isLate() bool {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late == nil || c.place == nil || c.since.IsZero() || time.Since(c.since) < l.timeout {
		return false
	}
	c.since = time.Time{}
	return true
}

// Accept returns the next connection. If the process may not open another file, it evicts a connection, too.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptTCP()
		switch {
		case err == nil:
			_ = conn.SetReadBuffer(receiveBuffer)
			if c := l.add(conn); c != nil {
				return c, nil
			}
		case !errors.Is(err, syscall.EMFILE) || l.evict(err) == nil:
			return nil, err
		}
	}
}

// receiveBuffer is how many bytes the kernel keeps of what a client sends before it is read, or
// twice as many. By itself it would let a client that floods grow that to megabytes.
const receiveBuffer = 32 << 10

// setMax binds connections that come from now on.
func (l *listener) setMax(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = n
}

// add counts a connection. If there are too many, it evicts one. It returns nil if that is the new one itself.
func (l *listener) add(conn *net.TCPConn) *connection {
	address, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	c := &connection{TCPConn: conn, listener: l, since: time.Now()}
	l.mu.Lock()
	c.place = l.pending.Add(pending.Network(address.Addr().Unmap().WithZone("")), c)
	l.open++
	limit, full := l.max, l.open > l.max
	l.mu.Unlock()
	if full && l.evict(fmt.Errorf("%d connections are open, the limit", limit)) == c {
		return nil
	}
	return c
}

// evict closes the connection that is next to make room, and returns it, or nil if all are WebSockets.
func (l *listener) evict(why error) *connection {
	l.evicted.Happened(why)
	l.mu.Lock()
	next, ok := l.pending.Next()
	l.mu.Unlock()
	if !ok {
		return nil
	}
	_ = next.Close()
	return next
}

// ofClient has connections count for the client of their requests, where that is another than the
// peer, such as a trusted proxy's. It is to be beside connContext.
func ofClient(next http.Handler, networkOf func(*http.Request) netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.move(networkOf(r))
		}
		next.ServeHTTP(w, r)
	})
}

// connectionKey is the key of a request's *connection in its context.
type connectionKey struct{}

// connContext is called by net/http.
func (l *listener) connContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connectionOf(conn))
}

func (c *connection) move(network netip.Prefix) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.place != nil {
		c.listener.pending.Move(c.place, network)
	}
}

// connectionOf returns what the listener has given to net/http.
func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return conn.(*connection)
}

// connState is called by net/http. It protects a connection that has become a WebSocket from
// eviction, and records when requests begin.
func (l *listener) connState(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateHijacked:
		c.removePendingLocked()
	case http.StateIdle:
		c.since = time.Time{}
	case http.StateActive:
		if c.since.IsZero() {
			c.since = time.Now()
		}
	}
}

func (c *connection) removePendingLocked() {
	if c.place != nil {
		c.listener.pending.Remove(c.place)
		c.place = nil
	}
}

// Close closes the connection and frees its place.
func (c *connection) Close() error {
	err := c.TCPConn.Close()
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.removePendingLocked()
	if !c.closed {
		c.closed = true
		c.listener.open--
	}
	return err
}
