package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// pipes is a listener within the process, for servers in a synctest bubble: there
// a wait for a real socket would stop the clock.
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

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
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
	redis *redis.Client
	rooms *room.Coordinator
	hook  *hookedRooms
	ear   *ear
	pipes *pipes
}

// hookedRooms lets a test see to it what becomes of an action: before, if not nil,
// is called for each, and an error from it is the action's; after is called when it
// is done, and the caller does not know it yet.
type hookedRooms struct {
	Rooms
	mu     sync.Mutex
	before func(ctx context.Context, a room.Action) error // guarded by mu
	after  func(a room.Action)                            // guarded by mu
	deaf   atomic.Bool                                    // no subscription ever stands, and no ping is answered
}

func (r *hookedRooms) Ping(ctx context.Context) error {
	if r.deaf.Load() {
		return room.ErrUnavailable
	}
	return r.Rooms.Ping(ctx)
}

func (r *hookedRooms) Watch(ctx context.Context, id string, fn func(*room.Event)) (func(), error) {
	if r.deaf.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return r.Rooms.Watch(ctx, id, fn)
}

func (r *hookedRooms) set(before func(ctx context.Context, a room.Action) error) {
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

// throwOutOnce has a taken out of room 42 through the other node when an action is
// done, and everybody told.
func (r *hookedRooms) throwOutOnce(t *testing.T, first, second *bubbleServer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = func(room.Action) {
		r.mu.Lock()
		r.after = nil
		r.mu.Unlock()
		time.Sleep(time.Millisecond) // the action's event is told by itself
		throwOut(t, first, second)
		time.Sleep(time.Second)
	}
}

func startInBubble(t *testing.T, mini *embedded.Redis, rules room.Rules, opts Options) *bubbleServer {
	t.Helper()
	rdb, ear := redistest.MiniClient(t, mini), newEar()
	rdb.AddHook(ear)
	t.Cleanup(ear.free)
	rooms, err := room.New(rdb, room.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	hook := &hookedRooms{Rooms: rooms}
	opts.Duplicate = rules.Duplicate
	s, err := New(hook, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rooms.Close(context.Background()) })
	return &bubbleServer{s, rdb, rooms, hook, ear, servePipes(t, s)}
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

// visitor is a client in a bubble. It reads all the time, also while it answers a
// ping, as net.Pipe has no buffer.
type visitor struct {
	player
	frames chan string
	closed chan error
}

func (s *bubbleServer) connect(t *testing.T, user string) *visitor {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, NetDialContext: s.pipes.dial}
	ws, _, err := dialer.Dial("ws://pipes/ws?user="+url.QueryEscape(user), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{player{t, ws}, make(chan string, 1000), make(chan error, 1)}
	ws.SetPingHandler(func(data string) error {
		go func() { _ = ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second)) }()
		return nil
	})
	go func() {
		for {
			_, frame, err := ws.ReadMessage()
			if err != nil {
				v.closed <- err
				return
			}
			v.frames <- withoutEpoch(frame)
		}
	}()
	t.Cleanup(func() { _ = ws.Close() })
	return v
}

// cut breaks the connection, without a word.
func (v *visitor) cut() {
	_ = v.ws.NetConn().Close()
	synctest.Wait()
}

// hear expects the next frame to be want, within the time that Redis takes.
func (v *visitor) hear(want string) {
	v.t.Helper()
	v.wait(want, 100*time.Millisecond)
}

// wait is hear with patience.
func (v *visitor) wait(want string, patience time.Duration) {
	v.t.Helper()
	select {
	case got := <-v.frames:
		if got != want {
			v.t.Fatalf("heard\n  %s\nwant\n  %s", got, want)
		}
	case err := <-v.closed:
		v.t.Fatalf("instead of %s: %v", want, err)
	case <-time.After(patience):
		v.t.Fatalf("heard nothing, want\n  %s", want)
	}
}

// quiet expects that nothing was said and the connection stands.
func (v *visitor) quiet() {
	v.t.Helper()
	synctest.Wait()
	select {
	case got := <-v.frames:
		v.t.Fatalf("heard %s", got)
	case err := <-v.closed:
		v.t.Fatal(err)
	default:
	}
}

// ended expects the connection to have been closed with that code.
func (v *visitor) ended(code int) {
	v.t.Helper()
	synctest.Wait()
	select {
	case err := <-v.closed:
		var closed *websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != code {
			v.t.Fatalf("closed with %v, want %d", err, code)
		}
	default:
		v.t.Fatal("the connection stands")
	}
}

// session returns that of the user's one connection.
func (s *bubbleServer) session(t *testing.T, user string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c.user == user {
			return c.session
		}
	}
	t.Fatalf("%s is not connected", user)
	return ""
}

// members returns the users of a room, by seat.
func (s *bubbleServer) members(t *testing.T, id string) string {
	t.Helper()
	snapshot, err := s.rooms.Read(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range snapshot.Users() {
		names = append(names, o.User)
	}
	return strings.Join(names, " ")
}

// lastVersion follows what a member of one room was told, checks that it goes on
// without a gap, and returns where it ends.
func lastVersion(t *testing.T, v *visitor) (version uint64) {
	t.Helper()
	for len(v.frames) > 0 {
		text := <-v.frames
		frame, err := protocol.DecodeFrame([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		e, isEvent := frame.(*protocol.Event)
		if !isEvent {
			t.Fatalf("heard %s", text)
		}
		if e.Event == protocol.EventChanges && e.From != version {
			t.Fatalf("at version %d heard %s", version, text)
		}
		version = e.Version
	}
	return version
}
