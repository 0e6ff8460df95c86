package unguarded

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve returns a server on miniredis, and the address of its WebSocket.
func serve(t *testing.T) (s *Server, redis *redis.Client, url string) {
	t.Helper()
	_, client := redistest.Mini(t)
	s = New(client, "eu:", func(host string) bool { return !strings.Contains(host, "evil") })
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return s, client, "ws" + strings.TrimPrefix(web.URL, "http") + "/unguarded"
}

type tester struct {
	t  *testing.T
	ws *websocket.Conn
	id int
}

func dial(t *testing.T, url, user string, capacity int) *tester {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(fmt.Sprintf("%s?user=%s&capacity=%d", url, user, capacity), nil)
	redistest.OK(t, err)
	t.Cleanup(func() { ws.Close() })
	return &tester{t: t, ws: ws}
}

func (p *tester) send(text string) *protocol.Reply {
	p.t.Helper()
	_ = p.ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	redistest.OK(p.t, p.ws.WriteMessage(websocket.TextMessage, []byte(text)))
	_, frame, err := p.ws.ReadMessage()
	redistest.OK(p.t, err)
	decoded, err := protocol.DecodeFrame(frame)
	redistest.OK(p.t, err)
	return decoded.(*protocol.Reply)
}

func (p *tester) ask(action, list string) *protocol.Reply {
	p.t.Helper()
	p.id++
	return p.send(fmt.Sprintf(`{"id":%d,"action":%q,"room":%q}`, p.id, action, list))
}

// One after the other, players are in the list, and no more than there are seats.
func TestOneAfterTheOther(t *testing.T) {
	_, redis, url := serve(t)
	for seat, user := range []string{"a", "b", "c"} {
		r := dial(t, url, user, 2).ask("join", "42")
		redistest.ErrorIf(t, seat < 2 && (r.Error != nil || *r.Seat != seat) || seat == 2 && (r.Error == nil || r.Error.Code != protocol.CodeRoomFull),
			"%s: %+v", user, r)
	}
	if r := dial(t, url, "d", 0).ask("users", "42"); r.Count != 2 || r.Users[1].User != "b" {
		t.Errorf("%+v", r)
	}
	if text := redis.Get(t.Context(), "eu:Lobby:Unguarded:42").Val(); text != `["a","b"]` {
		t.Errorf("the list is %s", text)
	}
	if ttl := redis.PTTL(t.Context(), "eu:Lobby:Unguarded:42").Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("it expires in %v", ttl)
	}
}

// Who writes while another player is between reading and writing wipes that one out, and takes a seat that
// there is once only. The hook lets b come exactly there.
func TestTheLaterWriteWins(t *testing.T) {
	s, client, _ := serve(t)
	other := &lists{client: client, prefix: s.lists.prefix, expires: make(map[string]time.Time)}
	slow := redis.NewClient(client.Options())
	defer slow.Close()
	slow.AddHook(between{func() {
		if _, err := other.join(t.Context(), "42", "b", 1, 0); err != nil {
			t.Error(err)
		}
	}})
	s.lists.client = slow
	seat, err := s.lists.join(t.Context(), "42", "a", 1, 0)
	users, _ := other.read(t.Context(), "42")
	redistest.ErrorIf(t, err != nil || seat != 0 || !slices.Equal(users, []string{"a"}),
		"seat %d, %v: the list is %v; want b lost", seat, err, users)
}

// Who waits does it between reading and writing.
func TestTheGap(t *testing.T) {
	s, client, _ := serve(t)
	redistest.OK(t, client.Set(t.Context(), s.lists.key("42"), `["b"]`, 0).Err())
	slow := redis.NewClient(client.Options())
	defer slow.Close()
	ctx, cancel := context.WithCancel(t.Context())
	slow.AddHook(after{"get", cancel})
	slow.AddHook(between{func() { t.Error("the list is written") }})
	s.lists.client = slow
	if _, err := s.lists.join(ctx, "42", "a", 10, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// after calls do after each command of that name.
type after struct {
	name string
	do   func()
}

func (h after) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h after) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h after) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == h.name {
			h.do()
		}
		return err
	}
}

// between calls do before each SET.
type between struct{ do func() }

func (h between) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "set" {
			h.do()
		}
		return next(ctx, cmd)
	}
}

// Clients decide neither how much is kept nor how many there are.
func TestBounds(t *testing.T) {
	_, _, url := serve(t)
	for _, query := range []string{"", "?user=a", "?user=&capacity=1", "?user=a&capacity=-1", "?user=a&capacity=70000", "?user=a%00&capacity=1", "?user=a&capacity=1&gap=-1", "?user=a&capacity=1&gap=101", "?user=a&capacity=1&gap=x"} {
		if _, answer, err := websocket.DefaultDialer.Dial(url+query, nil); err == nil || answer.StatusCode != 400 {
			t.Errorf("%q: %v", query, err)
		}
	}
	p := dial(t, url, "a", 0)
	for text, code := range map[string]string{
		`nonsense`: protocol.CodeBadRequest, `{"id":1,"action":"leave","room":"42"}`: "unknown_action", `{"id":1,"action":"join","room":"a b"}`: protocol.CodeBadRequest,
	} {
		if r := p.send(text); r.Error == nil || r.Error.Code != code {
			t.Errorf("%s: %+v", text, r)
		}
	}
	for i := range maxLists + 1 {
		r := p.ask("join", fmt.Sprint("list-", i))
		if busy := r.Error != nil && r.Error.Code == protocol.CodeBusy; busy != (i == maxLists) {
			t.Errorf("list %d: %+v", i, r.Error)
		}
	}
	q := dial(t, url, "b", 0)
	for range maxRequests {
		q.ask("users", "list-0")
	}
	_ = q.ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, _, err := q.ws.ReadMessage(); !websocket.IsUnexpectedCloseError(err) {
		t.Errorf("after %d requests: %v", maxRequests, err)
	}
}

// At the limit another connection is refused, until one ends.
func TestConnectionsAreLimited(t *testing.T) {
	s, _, url := serve(t)
	for range maxConnections {
		redistest.FatalIf(t, !s.enter(), "refused too early")
	}
	if _, answer, err := websocket.DefaultDialer.Dial(url+"?user=a&capacity=1", nil); err == nil || answer.StatusCode != 503 {
		t.Errorf("one more: %v", err)
	}
	for range maxConnections {
		s.leave()
	}
	dial(t, url, "a", 1).ask("users", "42")
}

// Close ends connections, and what comes later is refused.
func TestClose(t *testing.T) {
	s, _, url := serve(t)
	p := dial(t, url, "a", 1)
	p.ask("join", "42")
	s.Close()
	_ = p.ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, _, err := p.ws.ReadMessage(); err == nil {
		t.Error("a connection outlived Close")
	}
	if _, answer, err := websocket.DefaultDialer.Dial(url+"?user=b&capacity=1", nil); err == nil || answer.StatusCode != 503 {
		t.Errorf("after Close: %v", err)
	}
}

// A page of another site cannot connect.
func TestForeignPages(t *testing.T) {
	_, _, url := serve(t)
	header := map[string][]string{"Origin": {"https://evil.example"}}
	if _, answer, err := websocket.DefaultDialer.Dial(url+"?user=a&capacity=1", header); err == nil || answer.StatusCode != 403 {
		t.Errorf("%v", err)
	}
}

// A page of another site whose name leads to this machine does not get here, nor does who comes by a proxy.
func TestOnlyByTheNamesOfThisMachine(t *testing.T) {
	s, _, _ := serve(t)
	for host, want := range map[string]int{"evil.example:8080": http.StatusForbidden, "localhost:8080": http.StatusBadRequest} {
		r := httptest.NewRequest("GET", "/unguarded?user=a&capacity=0", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != want { // 400: it is no WebSocket
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}
