package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

// testClient is a WebSocket, for tests that compare frames byte for byte. It reads all the time in a
// bubble, also while it answers a ping, because net.Pipe has no buffer; elsewhere, and if it is idle,
// it reads only in expect.
type testClient struct {
	t        *testing.T
	ws       *websocket.Conn
	frames   chan string // nil if it reads only in expect
	closed   chan error
	degraded atomic.Bool // whether the last event of the node said that it is degraded
}

// dial connects with whatever headers and subprotocols, idle.
func (s *testNode) dial(t *testing.T, path string, header http.Header, subprotocols ...string) (*testClient, *http.Response, error) {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: append([]string{protocol.Subprotocol}, subprotocols...),
		NetDialContext: s.connection, HandshakeTimeout: testTimeout}
	ws, res, err := dialer.Dial("ws://"+s.addr+path, header)
	if err != nil {
		return nil, res, err
	}
	t.Cleanup(func() { _ = ws.Close() })
	return &testClient{t: t, ws: ws}, res, nil
}

func (s *testNode) connect(t *testing.T, user string) *testClient {
	t.Helper()
	c := s.connectIdle(t, user)
	if inBubble() {
		c.reading()
	}
	return c
}

// connectIdle returns a client that reads only in expect.
func (s *testNode) connectIdle(t *testing.T, user string) *testClient {
	t.Helper()
	c, _, err := s.dial(t, "/ws?user="+url.QueryEscape(user), nil)
	redistest.OK(t, err)
	if got := c.ws.Subprotocol(); got != protocol.Subprotocol {
		t.Fatalf("subprotocol is %q", got)
	}
	return c
}

// answerPings lets the client answer pings while it does something else.
func answerPings(ws *websocket.Conn) {
	ws.SetPingHandler(func(data string) error {
		go func() { _ = ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Hour)) }()
		return nil
	})
}

// reading lets an idle client read all the time from now on.
func (c *testClient) reading() *testClient {
	c.frames, c.closed = make(chan string, 1000), make(chan error, 1)
	answerPings(c.ws)
	go func() {
		for {
			_, frame, err := c.ws.ReadMessage()
			if err != nil {
				c.closed <- err
				return
			}
			checkDescribed(c.t, frame)
			if bytes.HasPrefix(frame, []byte(`{"event":"node"`)) { // whether Redis answers is another matter
				c.degraded.Store(bytes.Contains(frame, []byte("true")))
				continue
			}
			c.frames <- withoutEpoch(frame)
		}
	}()
	return c
}

func (c *testClient) send(frame string) {
	c.t.Helper()
	_ = c.ws.SetWriteDeadline(time.Now().Add(testTimeout))
	redistest.OK(c.t, c.ws.WriteMessage(websocket.TextMessage, []byte(frame)))
}

// sendClose sends a close frame.
func (c *testClient) sendClose(code int) {
	c.t.Helper()
	redistest.OK(c.t, c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(testTimeout)))
}

// cut breaks the connection without a close frame.
func (c *testClient) cut() {
	_ = c.ws.NetConn().Close()
	if inBubble() {
		synctest.Wait()
	}
}

// expect expects the next frame to equal want but for the epoch. In a bubble it comes within the time
// that Redis takes.
func (c *testClient) expect(want string) {
	c.t.Helper()
	c.expectWithin(want, 100*time.Millisecond)
}

// expectAll expects the same next frame of several clients.
func expectAll(want string, all ...*testClient) {
	for _, c := range all {
		c.t.Helper()
		c.expect(want)
	}
}

// expectStart waits for a frame that begins so.
func (c *testClient) expectStart(start string) {
	c.t.Helper()
	got := c.next(start+"…", time.Second)
	redistest.ErrorIf(c.t, !strings.HasPrefix(got, start), "got %s, which does not begin with %s", got, start)
}

// expectQuiet expects that nothing comes for a minute.
func expectQuiet(all ...*testClient) {
	time.Sleep(time.Minute)
	for _, c := range all {
		c.t.Helper()
		c.expectSilence()
	}
}

// expectEnd waits for a frame that ends so: for one whose version may differ.
func (c *testClient) expectEnd(end string) {
	c.t.Helper()
	if got := c.next("…"+end, time.Second); !strings.HasSuffix(got, end) {
		c.t.Fatalf("got %s, which does not end with %s", got, end)
	}
}

// expectWithin is expect for a frame that takes longer.
func (c *testClient) expectWithin(want string, patience time.Duration) {
	c.t.Helper()
	if got := c.next(want, patience); got != want && newRoom.ReplaceAllString(got, `"m-…"`) != want {
		c.t.Fatalf("got\n  %s\nwant\n  %s", got, want)
	}
}

// newRoom is the id of a room that a match has begun, in a frame.
var newRoom = regexp.MustCompile(`"m-[a-z0-9]{10}"`)

// next returns the next frame, which comes within patience, if the client reads all the time.
func (c *testClient) next(want string, patience time.Duration) string {
	c.t.Helper()
	if c.frames == nil {
		_ = c.ws.SetReadDeadline(time.Now().Add(testTimeout))
		_, frame, err := c.ws.ReadMessage()
		redistest.FatalIf(c.t, err != nil, "instead of %s: %v", want, err)
		checkDescribed(c.t, frame)
		return withoutEpoch(frame)
	}
	select {
	case got := <-c.frames: // also if the connection was closed after it
		return got
	default:
	}
	select {
	case got := <-c.frames:
		return got
	case err := <-c.closed:
		c.t.Fatalf("instead of %s: %v", want, err)
	case <-time.After(patience):
		c.t.Fatalf("nothing came, want %s", want)
	}
	return ""
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

// exchange sends a frame and expects the next one to be the answer.
func (c *testClient) exchange(frame, answer string) {
	c.t.Helper()
	c.send(frame)
	c.expect(answer)
}

// ping expects an answer to a ping, with the time at the server.
func (c *testClient) ping() {
	c.t.Helper()
	c.send(`{"id":9,"action":"ping"}`)
	var pong struct{ ID, Time int64 }
	got := c.next("a pong", time.Second)
	_ = json.Unmarshal([]byte(got), &pong)
	if late := time.Since(time.UnixMilli(pong.Time)); pong.ID != 9 || late.Abs() > testTimeout {
		c.t.Fatalf("got %s at %v", got, time.Now())
	}
}

// expectLeaveAndRejoin expects that a is removed from its seat at that version, and joins again at the
// next: in one frame if the second came before the first was written.
func (c *testClient) expectLeaveAndRejoin(version, seat int) {
	c.t.Helper()
	leave := fmt.Sprintf(`{"type":"leave","user":"a","seat":%d,"reason":"node"}`, seat)
	join := fmt.Sprintf(`{"type":"join","user":"a","seat":%d}`, seat)
	both := fmt.Sprintf(`{"event":"changes","room":"42","version":%d,"from":%d,"changes":[%s,%s]}`, version+1, version-1, leave, join)
	switch got := c.next(leave, 100*time.Millisecond); got {
	case both:
	case eventOf(version, leave):
		c.expect(eventOf(version+1, join))
	default:
		c.t.Fatalf("got\n  %s\nwant\n  %s", got, both)
	}
}

// expectSilence expects that no frame has come and that the connection is open.
func (c *testClient) expectSilence() {
	c.t.Helper()
	synctest.Wait()
	select {
	case got := <-c.frames:
		c.t.Fatalf("got %s", got)
	case err := <-c.closed:
		c.t.Fatal(err)
	default:
	}
}

// expectClose expects that the connection is closed with that code. An idle client reads until then;
// of one that reads all the time it has to be closed by now, or behind [session.LastRoomWait].
func (c *testClient) expectClose(code int) {
	c.t.Helper()
	var err error
	if c.frames == nil {
		err = c.readAll()
	} else {
		if code == protocol.CloseReplaced {
			time.Sleep(session.LastRoomWait)
		}
		synctest.Wait()
		select {
		case err = <-c.closed:
		default:
			c.t.Fatal("the connection is open")
		}
	}
	var closed *websocket.CloseError
	redistest.FatalIf(c.t, !errors.As(err, &closed) || closed.Code != code, "closed with %v, want %d", err, code)
}

// readAll lets an idle client read until the connection has ended.
func (c *testClient) readAll() error {
	_ = c.ws.SetReadDeadline(time.Now().Add(testTimeout))
	for {
		if _, _, err := c.ws.ReadMessage(); err != nil {
			return err
		}
	}
}

// lastVersion reads the events of a member of one room, checks that they have no gap, and
// returns the last version.
func (c *testClient) lastVersion() (version uint64) {
	c.t.Helper()
	for len(c.frames) > 0 {
		text := <-c.frames
		frame, err := protocol.DecodeFrame([]byte(text))
		redistest.OK(c.t, err)
		e, isEvent := frame.(*protocol.Event)
		redistest.FatalIf(c.t, !isEvent, "got %s", text)
		redistest.FatalIf(c.t, e.Event == protocol.EventChanges && e.From != version,
			"at version %d got %s", version, text)
		version = e.Version
	}
	return version
}
