package transport

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// testTimeout bounds each wait of a test that has no bound of its own.
const testTimeout = 10 * time.Second

// testNode is a node. In a synctest bubble its clients come through pipes, as a wait for a real
// socket would stop the clock there; elsewhere it listens on a loopback address.
type testNode struct {
	*Server
	addr  string
	pipes *pipes // nil outside a bubble

	// The rooms are nil where they are the test's own.
	rooms    *coordinator.Coordinator
	hook     *hookedRooms
	redis    *redis.Client
	redisNet *redisNet       // in a bubble only
	mini     *embedded.Redis // nil if Redis is a real one
}

// inBubble reports whether the test is in a synctest bubble, whose time begins in 2000.
func inBubble() bool { return time.Now().Year() < 2020 }

// bubble runs a subtest in a synctest bubble.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// start starts a node with a Redis of its own within the process.
func start(t testing.TB, rules room.Rules, opts Options) *testNode {
	t.Helper()
	mini, _ := redistest.Mini(t)
	return (&testNode{mini: mini}).beside(t, rules, opts)
}

// beside starts one more node on the same Redis.
func (s *testNode) beside(t testing.TB, rules room.Rules, opts Options) *testNode {
	t.Helper()
	more := startOn(t, redistest.MiniClient(t, s.mini), coordinator.Options{Rules: rules}, opts)
	more.mini = s.mini
	return more
}

// startPair starts two nodes on one Redis.
func startPair(t testing.TB, rules room.Rules, opts Options) (first, second *testNode) {
	t.Helper()
	first = start(t, rules, opts)
	return first, first.beside(t, rules, opts)
}

// startOn starts a node with a client of Redis that nobody else uses.
func startOn(t testing.TB, rdb *redis.Client, of coordinator.Options, opts Options) *testNode {
	t.Helper()
	var net *redisNet
	if inBubble() {
		net = newRedisNet()
		rdb.AddHook(net)
		t.Cleanup(net.resume)
	}
	rooms, err := coordinator.New(rdb, of)
	redistest.OK(t, err)
	t.Cleanup(func() { _ = rooms.Close(context.Background()) })
	opts.Duplicate = of.Rules.Duplicate
	hook := &hookedRooms{Rooms: rooms}
	s := serve(t, hook, opts)
	s.rooms, s.hook, s.redis, s.redisNet = rooms, hook, rdb, net
	return s
}

// serve serves clients of the rooms until the test ends.
func serve(t testing.TB, rooms Rooms, opts Options) *testNode {
	t.Helper()
	s, err := New(rooms, opts)
	redistest.OK(t, err)
	node, web := &testNode{Server: s, addr: "pipes"}, &http.Server{Handler: s.Handler()}
	var listener net.Listener
	if inBubble() {
		node.pipes = &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		listener = node.pipes
	} else {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		redistest.OK(t, err)
		node.addr = listener.Addr().String()
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = web.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		redistest.OK(t, s.Shutdown(ctx))
		_ = web.Close()
		<-served
	})
	return node
}

// shutdown begins a shutdown, and returns where its error comes.
func (s *testNode) shutdown() (done chan error) {
	done = make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	return done
}

// pipes is a listener within the process.
type pipes struct {
	wrap     func(net.Conn) net.Conn // the server's end, if not nil
	wrapNear func(net.Conn) net.Conn // the client's end, if not nil
	conns    chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// connection returns a new connection to the node. The arguments are those of a net.Dialer's DialContext.
func (s *testNode) connection(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.pipes == nil {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	near, far := net.Pipe()
	if s.pipes.wrap != nil {
		far = s.pipes.wrap(far)
	}
	if s.pipes.wrapNear != nil {
		near = s.pipes.wrapNear(near)
	}
	select {
	case s.pipes.conns <- far:
		return near, nil
	case <-s.pipes.closed:
		return nil, net.ErrClosed
	}
}

// session returns the id of the session that the user has on this node.
func (s *testNode) session(t *testing.T, user string) string {
	t.Helper()
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	for _, c := range s.conns.open {
		if c.session.User == user {
			return c.session.ID
		}
	}
	t.Fatalf("%s is not connected", user)
	return ""
}

// onlyConn returns the one connection that is open.
func (s *testNode) onlyConn(t *testing.T) *conn {
	t.Helper()
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	redistest.FatalIf(t, len(s.conns.open) != 1, "%d connections are open", len(s.conns.open))
	for _, c := range s.conns.open {
		return c
	}
	return nil
}

// members returns the users in a room, in the order of their seats.
func (s *testNode) members(t *testing.T, id string) string {
	t.Helper()
	snapshot, err := s.rooms.Read(t.Context(), id)
	redistest.OK(t, err)
	var names []string
	for _, o := range snapshot.Users() {
		names = append(names, o.User)
	}
	return strings.Join(names, " ")
}

// expectMembers expects these users in a room.
func (s *testNode) expectMembers(t *testing.T, id, want string) {
	t.Helper()
	redistest.Equal(t, "in room "+id+" are", s.members(t, id), want)
}

// act runs an action in room 42.
func (s *testNode) act(t *testing.T, a room.Action) {
	t.Helper()
	s.actIn(t, "42", a)
}

// actIn runs an action in a room, without a connection.
func (s *testNode) actIn(t *testing.T, id string, a room.Action) {
	t.Helper()
	_, err := s.rooms.Do(t.Context(), id, a)
	redistest.OK(t, err)
	synctest.Wait()
}

// joins lets a user join a room without a connection.
func (s *testNode) joins(t *testing.T, user, id string) {
	t.Helper()
	s.actIn(t, id, room.Join{User: user, Session: "session of " + user})
}

func TestMain(m *testing.M) {
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}
