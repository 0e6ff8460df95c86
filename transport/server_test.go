package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// testServer is a node with an embedded Redis.
type testServer struct {
	*Server
	rooms *room.Coordinator
	addr  string
}

func startServer(t testing.TB, rules room.Rules, opts Options) *testServer {
	t.Helper()
	_, rdb := redistest.Mini(t)
	rooms, err := room.New(rdb, room.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, rooms, rooms, opts)
}

func serve(t testing.TB, rooms Rooms, c *room.Coordinator, opts Options) *testServer {
	t.Helper()
	s, err := New(rooms, opts)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		web.Close()
		if c != nil {
			_ = c.Close(ctx)
		}
	})
	return &testServer{s, c, strings.TrimPrefix(web.URL, "http://")}
}

// patienceOfTests bounds what a test waits for without saying how long that may take.
const patienceOfTests = 10 * time.Second

// player is a bare WebSocket, to see every byte.
type player struct {
	t  *testing.T
	ws *websocket.Conn
}

func (s *testServer) connect(t *testing.T, user string) *player {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, HandshakeTimeout: patienceOfTests}
	ws, _, err := dialer.Dial("ws://"+s.addr+"/ws?user="+url.QueryEscape(user), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := ws.Subprotocol(); got != protocol.Subprotocol {
		t.Fatalf("subprotocol is %q", got)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return &player{t, ws}
}

func (p *player) say(frame string) {
	p.t.Helper()
	_ = p.ws.SetWriteDeadline(time.Now().Add(patienceOfTests))
	if err := p.ws.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		p.t.Fatal(err)
	}
}

// hear expects a frame that equals want once its epoch is taken out.
func (p *player) hear(want string) {
	p.t.Helper()
	_ = p.ws.SetReadDeadline(time.Now().Add(patienceOfTests))
	_, frame, err := p.ws.ReadMessage()
	if err != nil {
		p.t.Fatalf("instead of %s: %v", want, err)
	}
	if got := withoutEpoch(frame); got != want {
		p.t.Fatalf("heard\n  %s\nwant\n  %s", got, want)
	}
}

// withoutEpoch takes out of a frame what is random.
func withoutEpoch(frame []byte) string {
	var head struct{ Epoch string }
	_ = json.Unmarshal(frame, &head)
	if head.Epoch == "" {
		return string(frame)
	}
	return strings.Replace(string(frame), `"epoch":"`+head.Epoch+`",`, "", 1)
}

// hearClose expects the connection to be closed with that code.
func (p *player) hearClose(code int) {
	p.t.Helper()
	_ = p.ws.SetReadDeadline(time.Now().Add(patienceOfTests))
	for {
		_, _, err := p.ws.ReadMessage()
		var closed *websocket.CloseError
		if errors.As(err, &closed) {
			if closed.Code != code {
				p.t.Fatalf("closed with %d %q, want %d", closed.Code, closed.Text, code)
			}
			return
		}
		if err != nil {
			p.t.Fatalf("instead of a close with %d: %v", code, err)
		}
	}
}

// The transcript of the design, byte for byte.
func TestProtocol(t *testing.T) {
	s := startServer(t, room.Rules{Capacity: 4}, Options{})
	li, wang, zhang := s.connect(t, "李四"), s.connect(t, "王五"), s.connect(t, "张三")

	li.say(`{"id":1,"action":"join","room":"42"}`)
	li.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"李四","seat":0}]}`)
	wang.say(`{"id":1,"action":"join","room":"42"}`)
	wang.hear(`{"id":1,"room":"42","version":2,"seat":1,"count":2,"users":[{"user":"李四","seat":0},{"user":"王五","seat":1}]}`)
	li.hear(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"王五","seat":1}]}`)
	zhang.say(`{"id":7,"action":"join","room":"42","seat":3}`)
	zhang.hear(`{"id":7,"room":"42","version":3,"seat":3,"count":3,"users":[{"user":"李四","seat":0},{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
	for _, p := range []*player{li, wang} {
		p.hear(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"join","user":"张三","seat":3}]}`)
	}
	li.say(`{"id":2,"action":"leave","room":"42"}`)
	li.hear(`{"id":2,"room":"42","version":4,"count":2}`)
	zhang.hear(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"李四","seat":0}]}`)
	li.say(`{"id":3,"action":"users","room":"42"}`) // and no event of its own leave before it
	li.hear(`{"id":3,"room":"42","version":4,"count":2,"users":[{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
	li.say(`{"id":4,"action":"users","room":"nobody-here"}`)
	li.hear(`{"id":4,"room":"nobody-here","epoch":"","version":0,"count":0,"users":[]}`)

	for frame, want := range map[string]string{
		`{"id":5,"action":"leave","room":"42"}`:           `{"id":5,"error":{"code":"not_member","message":"李四 is not in room 42","retry":false}}`,
		`{"id":5,"action":"join","room":"42","seat":3}`:   `{"id":5,"error":{"code":"seat_taken","message":"seat 3 of room 42 is taken","retry":false}}`,
		`{"id":5,"action":"join","room":"42","seat":4}`:   `{"id":5,"error":{"code":"bad_request","message":"seat must be from 0 to 3, not 4","retry":false}}`,
		`{"id":5,"action":"join","room":"a b"}`:           `{"id":5,"error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not ' '","retry":false}}`,
		`{"id":5,"action":"users","room":""}`:             `{"id":5,"error":{"code":"bad_request","message":"room must be 1 to 64 characters long, not 0","retry":false}}`,
		`{"id":5,"action":"leave","room":"{42}"}`:         `{"id":5,"error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not '{'","retry":false}}`,
		`{"id":5,"action":"join","room":"42","seats":1}`:  `{"id":5,"error":{"code":"bad_request",`,
		`{"id":5,"action":"dance","room":"42"}`:           `{"id":5,"error":{"code":"unknown_action",`,
		`{"id":5,"action":"join","room":"42","room":"1"}`: `{"id":5,"error":{"code":"bad_request",`,
		`nonsense`: `{"error":{"code":"bad_request",`,
	} {
		li.say(frame)
		_, got, err := li.ws.ReadMessage()
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s: %s, %v; want %s", frame, got, err, want)
		}
	}
	li.say(`{"id":6,"action":"join","room":"42"}`) // the connection has stayed
	li.hear(`{"id":6,"room":"42","version":5,"seat":0,"count":3,"users":[{"user":"李四","seat":0},{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
	li.say(`{"id":7,"action":"join","room":"42"}`) // again: like the first
	li.hear(`{"id":7,"room":"42","version":5,"seat":0,"count":3,"users":[{"user":"李四","seat":0},{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
}

func TestFullRoom(t *testing.T) {
	s := startServer(t, room.Rules{Capacity: 1}, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.say(`{"id":1,"action":"join","room":"42"}`)
	a.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	b.say(`{"id":1,"action":"join","room":"42"}`)
	b.hear(`{"id":1,"error":{"code":"room_full","message":"room 42 is full: 1 of 1 seats taken","retry":false}}`)
	a.say(`{"id":2,"action":"leave","room":"42"}`)
	a.hear(`{"id":2,"room":"42","version":2,"count":0}`)
	b.say(`{"id":2,"action":"users","room":"42"}`) // the refused one gets no events
	b.hear(`{"id":2,"room":"42","version":2,"count":0,"users":[]}`)
}

func TestWhatEndsAConnection(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{})
	for name, tt := range map[string]struct {
		kind int
		data []byte
		code int
	}{
		"binary":    {websocket.BinaryMessage, []byte(`{"id":1,"action":"users","room":"1"}`), protocol.CloseNotText},
		"not UTF-8": {websocket.TextMessage, []byte("{\"id\":1,\"action\":\"users\",\"room\":\"\xff\"}"), protocol.CloseNotUTF8},
		"too big":   {websocket.TextMessage, []byte(`{"id":1,"pad":"` + strings.Repeat("x", protocol.MaxFrame) + `"}`), protocol.CloseTooBig},
	} {
		p := s.connect(t, "张三")
		if err := p.ws.WriteMessage(tt.kind, tt.data); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { p.t = t; p.hearClose(tt.code) })
	}
}

// Without a grace a user who disconnects leaves at once, and a newer session of a
// user takes the seat over, which the end of the old one does not undo.
func TestSessions(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{Grace: -1})
	watcher, old := s.connect(t, "李四"), s.connect(t, "张三")
	watcher.say(`{"id":1,"action":"join","room":"42"}`)
	watcher.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"李四","seat":0}]}`)
	old.say(`{"id":1,"action":"join","room":"42"}`)
	watcher.hear(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"张三","seat":1}]}`)
	newer := s.connect(t, "张三")
	newer.say(`{"id":1,"action":"join","room":"42"}`)
	newer.hear(`{"id":1,"room":"42","version":3,"seat":1,"count":2,"users":[{"user":"李四","seat":0},{"user":"张三","seat":1}]}`)
	watcher.hear(`{"event":"changes","room":"42","version":3,"from":2,"changes":[]}`)
	old.hearClose(protocol.CloseReplaced)
	_ = newer.ws.Close() // without a word
	watcher.hear(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"张三","seat":1}]}`)
}

func TestPingAndSilence(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{PingInterval: 500 * time.Millisecond, Grace: -1})
	alive, watcher := s.connect(t, "alive"), s.connect(t, "watcher")
	watcher.say(`{"id":1,"action":"join","room":"42"}`)
	watcher.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"watcher","seat":0}]}`)
	silent := s.connect(t, "silent")
	silent.say(`{"id":1,"action":"join","room":"42"}`) // and reads nothing, so answers no ping
	watcher.hear(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"silent","seat":1}]}`)
	pings := make(chan struct{}, 100)
	answer := alive.ws.PingHandler()
	alive.ws.SetPingHandler(func(data string) error { pings <- struct{}{}; return answer(data) })
	go func() { _, _, _ = alive.ws.ReadMessage() }()
	watcher.hear(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"silent","seat":1}]}`)
	for range 3 {
		redistest.Receive(t, pings, "a ping")
	}
}

// Shutdown lets the request that runs finish and be answered, refuses new
// connections, and nobody loses a seat.
func TestShutdown(t *testing.T) {
	_, rdb := redistest.Mini(t)
	rooms, err := room.New(rdb, room.Options{})
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{}, 2)
	s := serve(t, &announcedRooms{rooms, entered}, rooms, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.say(`{"id":1,"action":"join","room":"42"}`)
	a.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	redistest.Receive(t, entered, "an action to begin")

	rdb.Set(t.Context(), "LockRoom:42", "somebody", 0)
	b.say(`{"id":1,"action":"join","room":"42"}`)
	redistest.Receive(t, entered, "an action to begin")
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	a.hearClose(protocol.CloseRestart)
	if _, res, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/ws?user=c", nil); err == nil || res.StatusCode != 503 {
		t.Errorf("a new connection: %v", err)
	}
	rdb.Del(t.Context(), "LockRoom:42")
	b.hear(`{"id":1,"room":"42","version":2,"seat":1,"count":2,"users":[{"user":"a","seat":0},{"user":"b","seat":1}]}`)
	b.hearClose(protocol.CloseRestart)
	if err := redistest.Receive(t, done, "Shutdown"); err != nil {
		t.Fatal(err)
	}
	if r, err := rooms.Read(t.Context(), "42"); err != nil || fmt.Sprint(r.Users()) != "[{a 0} {b 1}]" {
		t.Errorf("after the shutdown the room holds %v, %v", r.Users(), err)
	}
}

// announcedRooms says when an action begins.
type announcedRooms struct {
	Rooms
	entered chan struct{}
}

func (r *announcedRooms) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	r.entered <- struct{}{}
	return r.Rooms.Do(ctx, id, a)
}

// A shutdown whose patience ends cuts off who is left.
func TestShutdownInAHurry(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{})
	stuck := &stuckRooms{Rooms: s.rooms, entered: make(chan struct{})}
	s2 := serve(t, stuck, nil, Options{})
	p := s2.connect(t, "a")
	p.say(`{"id":1,"action":"users","room":"42"}`)
	redistest.Receive(t, stuck.entered, "a read to begin")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := s2.Shutdown(ctx); !errors.Is(err, enough) {
		t.Errorf("shutdown: %v", err)
	}
}

// stuckRooms answers a read only when its context ends.
type stuckRooms struct {
	Rooms
	entered chan struct{}
}

func (r *stuckRooms) Read(ctx context.Context, _ string) (room.Snapshot, error) {
	close(r.entered)
	<-ctx.Done()
	return room.Snapshot{}, ctx.Err()
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	for err, code := range map[error]string{
		&room.InvalidError{Field: "user"}: protocol.CodeBadRequest,
		room.ErrFull:                      protocol.CodeRoomFull,
		room.ErrSeatTaken:                 protocol.CodeSeatTaken,
		room.ErrNotMember:                 protocol.CodeNotMember,
		room.ErrDuplicate:                 protocol.CodeDuplicateUser,
		room.ErrBusy:                      protocol.CodeBusy,
		room.ErrUnavailable:               protocol.CodeUnavailable,
		room.ErrUnknown:                   protocol.CodeUnknown,
		room.ErrClosed:                    protocol.CodeUnavailable,
		errors.New("dial 10.0.0.1"):       protocol.CodeInternal,
	} {
		got := toProtocol(fmt.Errorf("wrapped: %w", err))
		if got.Code != code {
			t.Errorf("%v became %v, want %s", err, got, code)
		}
		if strings.Contains(got.Message, "10.0.0.1") {
			t.Errorf("%v shows players where Redis is", got)
		}
	}
}

func TestBadOptions(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{})
	for name, opts := range map[string]Options{
		"MaxConnections": {MaxConnections: -1}, "PingInterval": {PingInterval: -1}, "WriteTimeout": {WriteTimeout: -1},
		"HandshakeTimeout": {HandshakeTimeout: -1}, "LeaveTimeout": {LeaveTimeout: -1},
		"MaxRooms": {MaxRooms: -1},
	} {
		if _, err := New(s.rooms, opts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil, Options{}); err == nil || !strings.Contains(err.Error(), "rooms") {
		t.Errorf("rooms: %v", err)
	}
}

// A client that has nothing to say stays connected, by its pongs, for as long as it
// likes; the pings may be further apart than a write may take.
func TestAQuietClientStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		s := startInBubble(t, mini, room.Rules{}, Options{WriteTimeout: time.Second, PingInterval: 30 * time.Second})
		v := s.connect(t, "a")
		time.Sleep(10 * time.Minute)
		v.quiet()
	})
}
