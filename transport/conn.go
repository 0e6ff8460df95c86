package transport

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/gorilla/websocket"

	"roomd/transport/internal/outbox"
	"roomd/transport/internal/pending"
	"roomd/transport/internal/session"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

// conn is one WebSocket of a server; its session runs the user's requests.
type conn struct {
	*ws.Conn
	server  *Server
	session *session.Session
	out     *outbox.Outbox
	network netip.Prefix  // of the client's address; the zero Prefix if that is not known
	removed chan struct{} // closed when connections has removed it

	unauthenticated *pending.Entry[*conn] // guarded by connections.mu; nil once it has shown a token
	evicted         bool                  // guarded by connections.mu: aborted to make room
}

func newConn(s *Server, user string, access *session.Access, address netip.Addr) *conn {
	c := &conn{server: s, network: pending.Network(address), removed: make(chan struct{})}
	c.out = outbox.New(s.opts.MaxQueue)
	c.session = session.New(s.sessions, user, access, c.out, c)
	c.Conn = s.sockets.New(c.session, c.out, s.opts.MaxFrame)
	return c
}

// Named records that the client has shown a token: the connection is not evicted any more.
func (c *conn) Named() { c.server.conns.name(c) }

// serve runs the connection until it ends, and returns why it ended.
func (c *conn) serve(raw net.Conn) error {
	c.Open(raw)
	c.server.health.add(c)
	defer c.server.health.remove(c)
	c.session.Begin()
	reason := c.read()
	rooms, timers := c.session.Close(), c.server.disconnectTimers
	if websocket.IsCloseError(reason, websocket.CloseNormalClosure) { // on purpose
		timers.skip(c.session.User, c.session.ID, rooms)
	} else {
		timers.begin(c.session.User, c.session.ID, rooms)
	}
	c.Close()
	return reason
}

// read is Read, but turns a panic into an error, so that it ends this connection and not the node.
func (c *conn) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.End(0, "")
			c.out.Cut(nil) // no close frame either: 1012 without a reply says that the request was not run
			c.server.rateLimitedLogs.panics.Happened(err, "user", c.session.User, "stack", string(debug.Stack()))
		}
	}()
	return c.Read()
}

var errDraining = protocol.NewError(protocol.CodeUnavailable, "this node is shutting down, connect to another")

// connections are a server's open connections: at most max, and perAddress per address, unless that is negative.
type connections struct {
	max, perAddress int
	wg              sync.WaitGroup // open connections

	mu              sync.Mutex
	open            map[string]*conn     // guarded by mu: by session
	networks        map[netip.Prefix]int // guarded by mu: how many are open, by conn.network
	unauthenticated pending.Set[*conn]   // guarded by mu: those that have shown no token yet
	leaving         int                  // guarded by mu: evicted, and still in open
	draining        bool                 // guarded by mu
}

// maxUnauthenticated returns how many of max connections may have shown no token yet.
func maxUnauthenticated(max int) int { return min(max, 4+max/8) }

func newConnections(max, perAddress int) *connections {
	return &connections{
		max: max, perAddress: perAddress, open: make(map[string]*conn), networks: make(map[netip.Prefix]int),
	}
}

// add registers a connection, or returns why it is refused. If the server is full, or too many connections have no
// token, it returns one without a token to evict, chosen by [pending.Set]: clients without a token cannot fill the
// server, and no address can fill the slots for logging in.
func (cs *connections) add(c *conn) (evicted *conn, refusal *protocol.Error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case cs.draining:
		return nil, errDraining
	case cs.perAddress >= 0 && c.network.IsValid() && cs.networks[c.network] >= cs.perAddress:
		return nil, protocol.NewError(protocol.CodeRateLimited,
			"this node has %d connections from your address, the limit", cs.perAddress)
	}
	if c.session.User == "" {
		c.unauthenticated = cs.unauthenticated.Add(c.network, c)
	}
	full := len(cs.open)-cs.leaving >= cs.max
	if full || cs.unauthenticated.Len() > maxUnauthenticated(cs.max) {
		evicted, _ = cs.unauthenticated.Next()
	}
	if full && (evicted == nil || evicted == c) {
		cs.removeUnauthenticatedLocked(c)
		return nil, protocol.NewError(protocol.CodeUnavailable, "this node has %d connections, its limit", cs.max)
	}
	if evicted != nil {
		cs.removeUnauthenticatedLocked(evicted)
		evicted.evicted = true
		cs.leaving++
	}
	cs.open[c.session.ID] = c
	cs.networks[c.network]++
	cs.wg.Add(1)
	return evicted, nil
}

func (cs *connections) name(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.removeUnauthenticatedLocked(c)
}

func (cs *connections) removeUnauthenticatedLocked(c *conn) {
	if c.unauthenticated != nil {
		cs.unauthenticated.Remove(c.unauthenticated)
		c.unauthenticated = nil
	}
}

// remove frees the slot of a connection that has ended.
func (cs *connections) remove(c *conn) {
	cs.mu.Lock()
	delete(cs.open, c.session.ID)
	if cs.networks[c.network]--; cs.networks[c.network] == 0 {
		delete(cs.networks, c.network)
	}
	cs.removeUnauthenticatedLocked(c)
	if c.evicted {
		cs.leaving--
	}
	cs.mu.Unlock()
	close(c.removed)
	cs.wg.Done()
}

// find returns a session's connection, or nil, and whether the server drains.
func (cs *connections) find(session string) (c *conn, draining bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[session], cs.draining
}

func (cs *connections) list() (open []*conn, unauthenticated int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Collect(maps.Values(cs.open)), cs.unauthenticated.Len()
}

func (cs *connections) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open)
}

// drain refuses further connections, and returns the open ones.
func (cs *connections) drain() []*conn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.draining = true
	return slices.Collect(maps.Values(cs.open))
}

func (cs *connections) isDraining() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.draining
}

func (cs *connections) abort() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.open {
		c.Abort()
	}
}

// wait returns when all connections have ended. Call it after drain.
func (cs *connections) wait() { cs.wg.Wait() }
