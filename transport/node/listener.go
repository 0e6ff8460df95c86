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

type limits struct {
	clients int // WebSockets; further ones get HTTP 503
	total   int // all, including those that are not WebSockets (yet)
}

// limitsFor returns a node's limits for this many clients and open files; 0 files means no limit. If files are scarce
// it keeps some for Redis and the process itself, and fails if none is left for a client.
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
		return l, fmt.Errorf("the process may have %d files open, which leaves none for clients: "+
			"raise the limit (ulimit -n)", files)
	}
	return l, nil
}

// spareFor returns the number of connections allowed beside n WebSockets.
func spareFor(n int) int { return max(4, min(n/8, 1024)) }

// listener limits the open connections. At the limit it evicts one that is not a WebSocket yet; [pending.Set] chooses
// it. A game client becomes a WebSocket within a few round trips, so idle connections, even in the middle of a TLS
// handshake, keep nobody out.
type listener struct {
	*net.TCPListener
	evicted *ratelog.Log
	max     int           // open connections
	timeout time.Duration // of a request
	late    func()        // called when a client takes longer; may be nil

	mu      sync.Mutex
	open    int                      // guarded by mu
	pending pending.Set[*connection] // guarded by mu: connections that are not WebSockets
}

type connection struct {
	*net.TCPConn
	listener *listener

	// Guarded by listener.mu.
	place  *pending.Entry[*connection] // nil for a WebSocket
	since  time.Time                   // start of the current request; zero between requests
	closed bool
}

// Read also reports a client that takes too long. net/http, too, uses deadlines, to end its own reads.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.isLate() {
		c.listener.late()
	}
	return n, err
}

// isLate reports, once per request, whether the current request exceeds the timeout.
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

// Accept returns the next connection. If the process has too many open files, it evicts one and tries again.
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

// receiveBuffer limits the kernel's buffer of unread bytes from a client; the kernel may use twice as much. Without
// the limit, a flooding client would make the buffer grow to megabytes.
const receiveBuffer = 32 << 10

// add counts a connection. At the limit it evicts one, and returns nil if that is the new one.
func (l *listener) add(conn *net.TCPConn) *connection {
	address, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	c := &connection{TCPConn: conn, listener: l, since: time.Now()}
	l.mu.Lock()
	c.place = l.pending.Add(pending.Network(address.Addr().Unmap().WithZone("")), c)
	l.open++
	full := l.open > l.max
	l.mu.Unlock()
	if full && l.evict(fmt.Errorf("%d connections are open, the limit", l.max)) == c {
		return nil
	}
	return c
}

// evict closes the connection chosen by pending, and returns it; nil if all are WebSockets.
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

// ofClient counts a connection for the client of its requests, if that is not the peer, as behind a trusted proxy. It
// needs connContext.
func ofClient(next http.Handler, networkOf func(*http.Request) netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.move(networkOf(r))
		}
		next.ServeHTTP(w, r)
	})
}

type connectionKey struct{}

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

func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return conn.(*connection)
}

// connState is called by net/http. It protects WebSockets from eviction, and records when requests start.
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

// Close closes the connection and stops counting it.
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
