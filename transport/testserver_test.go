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
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/protocol"
)

// testServer is a node with an embedded Redis.
type testServer struct {
	*Server
	rooms *coordinator.Coordinator
	addr  string
}

func startServer(t testing.TB, rules room.Rules, opts Options) *testServer {
	t.Helper()
	_, rdb := redistest.Mini(t)
	rooms, err := coordinator.New(rdb, coordinator.Options{Rules: rules})
	redistest.OK(t, err)
	return serve(t, rooms, rooms, opts)
}

func serve(t testing.TB, rooms Rooms, c *coordinator.Coordinator, opts Options) *testServer {
	t.Helper()
	s, err := New(rooms, opts)
	redistest.OK(t, err)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
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

// testTimeout bounds each wait of a test that has no bound of its own.
const testTimeout = 10 * time.Second

// wsClient is a bare WebSocket, for tests that compare frames byte for byte.
type wsClient struct {
	t  *testing.T
	ws *websocket.Conn
}

func (s *testServer) connect(t *testing.T, user string) *wsClient {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, HandshakeTimeout: testTimeout}
	ws, _, err := dialer.Dial("ws://"+s.addr+"/ws?user="+url.QueryEscape(user), nil)
	redistest.OK(t, err)
	if got := ws.Subprotocol(); got != protocol.Subprotocol {
		t.Fatalf("subprotocol is %q", got)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return &wsClient{t, ws}
}

func (p *wsClient) send(frame string) {
	p.t.Helper()
	_ = p.ws.SetWriteDeadline(time.Now().Add(testTimeout))
	if err := p.ws.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		p.t.Fatal(err)
	}
}

// expect expects a frame that equals want but for the epoch.
func (p *wsClient) expect(want string) {
	p.t.Helper()
	_ = p.ws.SetReadDeadline(time.Now().Add(testTimeout))
	_, frame, err := p.ws.ReadMessage()
	if err != nil {
		p.t.Fatalf("instead of %s: %v", want, err)
	}
	checkDescribed(p.t, frame)
	if got := withoutEpoch(frame); got != want {
		p.t.Fatalf("got\n  %s\nwant\n  %s", got, want)
	}
}

// withoutEpoch removes the epoch, which is random, from a frame.
func withoutEpoch(frame []byte) string {
	var head struct{ Epoch string }
	_ = json.Unmarshal(frame, &head)
	if head.Epoch == "" {
		return string(frame)
	}
	return strings.Replace(string(frame), `"epoch":"`+head.Epoch+`",`, "", 1)
}

// sendClose sends a close frame.
func (p *wsClient) sendClose(code int) {
	p.t.Helper()
	if err := p.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(testTimeout)); err != nil {
		p.t.Fatal(err)
	}
}

// expectClose reads until the connection is closed, and expects that code.
func (p *wsClient) expectClose(code int) {
	p.t.Helper()
	_ = p.ws.SetReadDeadline(time.Now().Add(testTimeout))
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

// sizedRooms answers reads. The room with the id 9 has nine members; the room 9s, too, and
// takes nine seconds.
type sizedRooms struct{ Rooms }

func (sizedRooms) AnswerFor(func(room, session string) bool) {}

func (sizedRooms) Ping(context.Context) error { return nil }

func (sizedRooms) Read(_ context.Context, id string) (room.Snapshot, error) {
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
	return room.NewRoom(id, room.Position{Epoch: "e", Version: 1}, members).Snapshot(), nil
}
