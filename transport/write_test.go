package transport

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

func TestFrameHeaders(t *testing.T) {
	for _, tt := range []struct {
		size   int
		header string
	}{
		{0, "\x81\x00"},
		{125, "\x81\x7d"},
		{126, "\x81\x7e\x00\x7e"},
		{65535, "\x81\x7e\xff\xff"},
		{65536, "\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00"},
	} {
		content := strings.Repeat("x", tt.size)
		if got := string(seal(append(newFrame(0), content...))); got != tt.header+content {
			t.Errorf("%d bytes: header %q, want %q", tt.size, got[:len(got)-tt.size], tt.header)
		}
	}
	if got := string(controlFrame(websocket.PongMessage, []byte("hello"))); got != "\x8a\x05hello" {
		t.Errorf("a pong is %q", got)
	}
}

// tables answers reads with a room that has as many members as its id says; with an s
// behind that, after as many seconds.
type tables struct{ Rooms }

func (tables) AnswerFor(func(room, session string) bool) {}

func (tables) Read(_ context.Context, id string) (room.Snapshot, error) {
	if id == "panic" {
		panic("on purpose")
	}
	n, unit := 0, ""
	fmt.Sscanf(id, "%d%s", &n, &unit)
	if unit == "s" {
		time.Sleep(time.Duration(n) * time.Second)
	}
	members := make(map[string]room.Member)
	for seat := range n {
		members[fmt.Sprint("player-", seat)] = room.Member{Seat: seat}
	}
	return room.NewRoom(id, "e", 1, members).Snapshot(), nil
}

func TestListsOfAnyLength(t *testing.T) {
	s := serve(t, tables{}, nil, Options{})
	a := s.connect(t, "a")
	for _, n := range []int{0, 1, 3, 40, 2000, 5000} {
		a.say(fmt.Sprintf(`{"id":1,"action":"users","room":"%d"}`, n))
		_, frame, err := a.ws.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		reply, err := protocol.DecodeFrame(frame)
		if err != nil || len(reply.(*protocol.Reply).Users) != n {
			t.Errorf("%d members: %.60s, %v", n, frame, err)
		}
	}
}

// A fault of ours ends the connection that met with it, and no other.
func TestPanic(t *testing.T) {
	s := serve(t, tables{}, nil, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.say(`{"id":1,"action":"users","room":"panic"}`)
	if _, frame, err := a.ws.ReadMessage(); err == nil {
		t.Errorf("heard %s", frame)
	}
	b.say(`{"id":1,"action":"users","room":"1"}`)
	b.hear(`{"id":1,"room":"1","version":1,"count":1,"users":[{"user":"player-0","seat":0}]}`)
}

// Pings of clients are answered, and their close frames.
func TestPongAndClose(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{})
	for _, code := range []int{websocket.CloseNormalClosure, websocket.CloseNoStatusReceived} {
		a := s.connect(t, "a")
		pongs := make(chan string, 1)
		a.ws.SetPongHandler(func(data string) error { pongs <- data; return nil })
		soon := time.Now().Add(time.Minute)
		if err := a.ws.WriteControl(websocket.PingMessage, []byte("there?"), soon); err != nil {
			t.Fatal(err)
		}
		a.say(usersOf42)
		a.hear(`{"id":3,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		select {
		case got := <-pongs: // before the reply
			if got != "there?" {
				t.Errorf("pong %q", got)
			}
		default:
			t.Error("no pong")
		}
		a.ws.SetCloseHandler(func(int, string) error { return nil })
		if err := a.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), soon); err != nil {
			t.Fatal(err)
		}
		a.hearClose(code)
	}
}

// countedWrites counts what would be system calls.
type countedWrites struct {
	net.Conn
	n *atomic.Int64
}

func (c countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// dozer is a client in a bubble that reads only when it is told to.
func (s *bubbleServer) dozer(t *testing.T, user string) *player {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, NetDialContext: s.pipes.dial}
	ws, _, err := dialer.Dial("ws://pipes/ws?user="+url.QueryEscape(user), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return &player{t, ws}
}

// joins has a user join a room past the server.
func (s *bubbleServer) joins(t *testing.T, user, id string) {
	t.Helper()
	if _, err := s.rooms.Do(t.Context(), id, room.Join(user, "session of "+user)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// What has come while something was written goes out at once.
func TestWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		s := startInBubble(t, mini, room.Rules{}, Options{})
		var writes atomic.Int64
		s.pipes.wrap = func(c net.Conn) net.Conn { return countedWrites{c, &writes} }
		a := s.dozer(t, "a")
		a.say(watchOf42)
		a.hear(`{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		a.say(`{"id":4,"action":"watch","room":"43"}`)
		a.hear(`{"id":4,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
		writes.Store(0)
		s.joins(t, "b", "42") // keeps the writer busy
		for _, user := range []string{"c", "d"} {
			s.joins(t, user, "42")
			s.joins(t, user, "43")
		}
		a.say(`{"id":5,"action":"users","room":"44"}`)
		synctest.Wait()
		start := time.Now()
		a.hear(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"b","seat":0}]}`)
		a.hear(`{"event":"changes","room":"42","version":3,"from":1,"changes":[{"type":"join","user":"c","seat":1},{"type":"join","user":"d","seat":2}]}`)
		a.hear(`{"event":"changes","room":"43","version":2,"from":0,"changes":[{"type":"join","user":"c","seat":0},{"type":"join","user":"d","seat":1}]}`)
		a.hear(`{"id":5,"room":"44","epoch":"","version":0,"count":0,"users":[]}`)
		if n := writes.Load(); n != 2 || time.Since(start) > 0 {
			t.Errorf("%d writes, in %v", n, time.Since(start))
		}
	})
}

// Events that wait to be read do not keep a client's requests from being run.
func TestEventsDoNotDelayRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		s := startInBubble(t, mini, room.Rules{}, Options{})
		a := s.dozer(t, "a")
		a.say(watchOf42)
		a.hear(`{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		a.say(`{"id":5,"action":"users","room":"43"}`)
		synctest.Wait() // the reply waits to be read
		s.joins(t, "b", "42")
		a.hear(`{"id":5,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
		synctest.Wait() // the event does
		_ = a.ws.SetWriteDeadline(time.Now().Add(time.Second))
		a.say(`{"id":6,"action":"users","room":"43"}`)
		a.hear(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"b","seat":0}]}`)
		a.hear(`{"id":6,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
	})
}

// Who does not read is cut off after the time for a write, and the eighth by which
// that may be longer.
func TestWhoDoesNotRead(t *testing.T) {
	for _, quiet := range []time.Duration{0, time.Second, 2 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			mini, _ := redistest.Mini(t)
			s := startInBubble(t, mini, room.Rules{}, Options{Grace: -1, WriteTimeout: 8 * time.Second, PingInterval: time.Hour})
			a := s.dozer(t, "a")
			a.say(joinOf42)
			a.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
			time.Sleep(quiet)
			s.joins(t, "b", "42")
			start := time.Now()
			for strings.HasPrefix(s.members(t, "42"), "a") {
				if time.Since(start) > time.Minute {
					t.Fatal("it is still in the room")
				}
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(start); took < 8*time.Second || took > 9*time.Second+200*time.Millisecond {
				t.Errorf("cut off after %v", took)
			}
		})
	}
}

// Where Redis has no subscription for us, a join fails and does not wait for ever.
func TestNoSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		s := startInBubble(t, mini, room.Rules{}, Options{})
		s.hook.deaf.Store(true)
		a, b := s.connect(t, "a"), s.connect(t, "b")
		refused := `{"id":1,"error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`
		a.say(joinOf42)
		time.Sleep(watchTimeout / 8)
		b.say(joinOf42)
		time.Sleep(watchTimeout*7/8 - time.Millisecond)
		a.quiet()
		a.wait(refused, watchTimeout/8+10*time.Millisecond)
		b.wait(refused, 10*time.Millisecond)
		s.hook.deaf.Store(false)
		a.say(joinOf42)
		a.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	})
}
