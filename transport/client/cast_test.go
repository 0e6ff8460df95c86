package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// script is what a server does on one connection.
type script func(*server)

// cast is a server without sockets, so that it can be used in a synctest bubble. Its first connection
// runs the first script, and so on; the last one is for all that follow.
type cast struct {
	t       *testing.T
	conns   chan net.Conn
	refusal http.HandlerFunc // answers a handshake without a script; nil says that the gateway is bad
	lobby   http.HandlerFunc // answers who asks for the list of rooms

	mu      sync.Mutex
	scripts []script // guarded by mu
	tried   attempts // guarded by mu
}

// attempts are the addresses that were dialed, in order, and when.
type attempts struct {
	dialed []string
	times  []time.Time
}

func (c *cast) attempts() attempts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return attempts{slices.Clone(c.tried.dialed), slices.Clone(c.tried.times)}
}

// castLimit is how much virtual time a test takes at most. Pings keep a connection going for ever, so that time would go
// on without end if something that a test waits for did not come.
const castLimit = 24 * time.Hour

func newCast(t *testing.T, scripts ...script) *cast {
	t.Helper()
	name := t.Name()
	limit := time.AfterFunc(castLimit, func() { panic(fmt.Sprintf("%s has not ended within %v", name, castLimit)) })
	t.Cleanup(func() { limit.Stop() })
	c := &cast{t: t, conns: make(chan net.Conn), scripts: scripts}
	listener := &pipes{conns: c.conns, closed: make(chan struct{})}
	httpServer := &http.Server{Handler: http.HandlerFunc(c.serve)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = httpServer.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = httpServer.Close()
		<-served
	})
	return c
}

func (c *cast) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/api/rooms") {
		c.lobby(w, r)
		return
	}
	c.mu.Lock()
	next := c.scripts[0]
	if len(c.scripts) > 1 {
		c.scripts = c.scripts[1:]
	}
	c.mu.Unlock()
	if next == nil {
		if c.refusal == nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		c.refusal(w, r)
		return
	}
	handler(c.t, next)(w, r)
}

// config is that of a client of the cast.
func (c *cast) config() Config {
	return Config{Addresses: []string{"ws://memory/ws"}, User: "a", dial: c.dial, dialNet: c.dialNet}
}

// dialNet returns a connection to the HTTP server.
func (c *cast) dialNet(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case c.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *cast) dial(ctx context.Context, address string, opts Options) (*Conn, error) {
	c.mu.Lock()
	c.tried.dialed, c.tried.times = append(c.tried.dialed, address), append(c.tried.times, time.Now())
	c.mu.Unlock()
	dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, NetDialContext: func(_ context.Context, network, addr string) (net.Conn, error) {
		return c.dialNet(ctx, network, addr)
	}}
	if err := opts.check(); err != nil {
		return nil, err
	}
	header, err := opts.handshakeHeader(ctx)
	if err != nil {
		return nil, err
	}
	conn, resp, err := dialer.DialContext(ctx, address, header)
	if err != nil {
		return nil, refusal(resp, err)
	}
	return newConn(conn, opts), nil
}

// connect returns a client of the cast, which ends with the test.
func (c *cast) connect(cfg Config) *Client {
	c.t.Helper()
	client, err := Connect(c.t.Context(), cfg)
	redistest.OK(c.t, err)
	c.t.Cleanup(client.Close)
	return client
}

// pipes is a listener.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// expect reads a request, and reports another than the one wanted: its action and room, and, of a
// join, @ and the seat, and ! and the version expected.
func (s *server) expect(want string) protocol.Request {
	s.t.Helper()
	req, ok := s.next()
	got := req.Action + " " + req.Room
	if req.Seat != nil {
		got += fmt.Sprint("@", *req.Seat)
	}
	if req.Expect != nil {
		got += fmt.Sprint("!", *req.Expect)
	}
	redistest.ErrorIf(s.t, !ok || got != want, "the server got %q, want %q", got, want)
	return req
}

// list answers with a list of users, the first of whom has the seat 0; a join gets the seat 0.
func (s *server) list(req protocol.Request, version uint64, users ...string) {
	reply := &protocol.Reply{ID: &req.ID, Room: req.Room, Epoch: "e", Version: version, State: protocol.State{Count: len(users), Users: []protocol.Seated{}}}
	for i, user := range users {
		reply.Users = append(reply.Users, protocol.Seated{User: user, Seat: i})
	}
	if req.Action == protocol.ActionJoin {
		reply.Seat = new(0)
	}
	s.send("%s", protocol.AppendReply(nil, reply))
}

// done answers without a list.
func (s *server) done(req protocol.Request, version uint64) {
	s.send(`{"id":%d,"room":%q,"epoch":"e","version":%d,"count":1}`, req.ID, req.Room, version)
}

func (s *server) refuse(req protocol.Request, code string) {
	s.send("%s", protocol.AppendReply(nil, &protocol.Reply{ID: &req.ID, Room: req.Room, Error: protocol.NewError(code, "no")}))
}

// change sends one change, behind version-1.
func (s *server) change(room string, version uint64, change string) {
	s.send(`{"event":"changes","room":%q,"epoch":"e","version":%d,"from":%d,"changes":[%s]}`, room, version, version-1, change)
}

// cut ends the connection without a close frame.
func (s *server) cut() { _ = s.NetConn().Close() }

// joined is a script that lets a join room 42, and goes on.
func joined(then script) script {
	return func(s *server) {
		s.list(s.expect("join 42"), 1, "a")
		then(s)
	}
}

func (c *Client) mustJoin(t *testing.T, room string) *Room {
	t.Helper()
	r, err := c.Join(t.Context(), room)
	redistest.OK(t, err)
	return r
}
