package transport

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// pipes is a listener within the process, for servers in a synctest bubble: a wait for a real
// socket would stop the clock there.
type pipes struct {
	wrap   func(net.Conn) net.Conn // the server's end, if not nil
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
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

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	if p.wrap != nil {
		far = p.wrap(far)
	}
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// bubbleServer is a node in a bubble, with a coordinator of its own.
type bubbleServer struct {
	*Server
	redis    *redis.Client
	rooms    *coordinator.Coordinator
	hook     *hookedRooms
	redisNet *redisNet
	pipes    *pipes
}

func startInBubble(t *testing.T, mini *embedded.Redis, rules room.Rules, opts Options) *bubbleServer {
	t.Helper()
	rdb, redisNet := redistest.MiniClient(t, mini), newRedisNet()
	rdb.AddHook(redisNet)
	t.Cleanup(redisNet.resume)
	rooms, err := coordinator.New(rdb, coordinator.Options{Rules: rules})
	redistest.OK(t, err)
	hook := &hookedRooms{Rooms: rooms}
	opts.Duplicate = rules.Duplicate
	s, err := New(hook, opts)
	redistest.OK(t, err)
	t.Cleanup(func() { _ = rooms.Close(context.Background()) })
	return &bubbleServer{s, rdb, rooms, hook, redisNet, servePipes(t, s)}
}

// startSizedRooms starts a server of sizedRooms in a bubble.
func startSizedRooms(t *testing.T, opts Options) *bubbleServer {
	t.Helper()
	return serveInBubble(t, sizedRooms{}, opts)
}

func serveInBubble(t *testing.T, rooms Rooms, opts Options) *bubbleServer {
	t.Helper()
	s, err := New(rooms, opts)
	redistest.OK(t, err)
	return &bubbleServer{Server: s, pipes: servePipes(t, s)}
}

// servePipes serves clients in a bubble until the test ends.
func servePipes(t *testing.T, s *Server) *pipes {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	web := &http.Server{Handler: s.Handler()}
	go func() { _ = web.Serve(p) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = s.Shutdown(ctx)
		_ = web.Shutdown(ctx)
	})
	return p
}

// hookedRooms lets a test decide how an action ends. It calls before, if set, for each action,
// and an error of before is the action's; it calls after when the action is done, before its
// caller knows.
type hookedRooms struct {
	Rooms
	mu          sync.Mutex
	before      func(ctx context.Context, a room.Action) error // guarded by mu
	after       func(a room.Action)                            // guarded by mu
	unreachable atomic.Bool                                    // Redis answers no subscription and no ping
}

func (r *hookedRooms) Ping(ctx context.Context) error {
	if r.unreachable.Load() {
		return room.ErrUnavailable
	}
	return r.Rooms.Ping(ctx)
}

func (r *hookedRooms) Watch(ctx context.Context, id string, fn func(*room.Event)) (func(), error) {
	if r.unreachable.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return r.Rooms.Watch(ctx, id, fn)
}

func (r *hookedRooms) setBefore(before func(ctx context.Context, a room.Action) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

func (r *hookedRooms) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	r.mu.Lock()
	before, after := r.before, r.after
	r.mu.Unlock()
	if before != nil {
		if err := before(ctx, a); err != nil {
			return room.Result{}, err
		}
	}
	if after != nil {
		defer after(a)
	}
	return r.Rooms.Do(ctx, id, a)
}

// removeAOnce removes a from room 42 through the other node when the next action is done, and
// waits until that was announced.
func (r *hookedRooms) removeAOnce(t *testing.T, first, second *bubbleServer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = func(room.Action) {
		r.mu.Lock()
		r.after = nil
		r.mu.Unlock()
		time.Sleep(time.Millisecond) // so that the action's event is sent alone
		removeA(t, first, second)
		time.Sleep(time.Second)
	}
}

// session returns the id of the session that the user has on this node.
func (s *bubbleServer) session(t *testing.T, user string) string {
	t.Helper()
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	for _, c := range s.conns.open {
		if c.session.user == user {
			return c.session.id
		}
	}
	t.Fatalf("%s is not connected", user)
	return ""
}

// members returns the users in a room, in the order of their seats.
func (s *bubbleServer) members(t *testing.T, id string) string {
	t.Helper()
	snapshot, err := s.rooms.Read(t.Context(), id)
	redistest.OK(t, err)
	var names []string
	for _, o := range snapshot.Users() {
		names = append(names, o.User)
	}
	return strings.Join(names, " ")
}

// joins lets a user join a room without a connection.
func (s *bubbleServer) joins(t *testing.T, user, id string) {
	t.Helper()
	if _, err := s.rooms.Do(t.Context(), id, room.Join{User: user, Session: "session of " + user}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}
