package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/ws"
	"roomd/transport/internal/ws/wstest"
	"roomd/transport/protocol"
)

// rawClient sends frames that no library would send.
type rawClient struct {
	t   testing.TB
	raw net.Conn
	src *bufio.Reader
}

// handshake is the request of user a.
const handshake = "GET /ws?user=a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// connectRaw connects as a user whom no other connection has: they would share their limits.
func (s *testNode) connectRaw(t testing.TB) *rawClient {
	t.Helper()
	return s.connectRawAs(t, fmt.Sprint("raw", rawUsers.Add(1)))
}

var rawUsers atomic.Int64

func (s *testNode) connectRawAs(t testing.TB, user string) *rawClient {
	t.Helper()
	raw, err := s.connection(t.Context(), "tcp", s.addr)
	redistest.OK(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	if !inBubble() { // where a wait for ever fails by itself
		_ = raw.SetDeadline(time.Now().Add(testTimeout))
	}
	c := &rawClient{t, raw, bufio.NewReader(raw)}
	c.write(strings.Replace(handshake, "user=a", "user="+user, 1))
	answer, err := http.ReadResponse(c.src, nil)
	redistest.FatalIf(t, err != nil || answer.StatusCode != http.StatusSwitchingProtocols,
		"handshake: %+v, %v", answer, err)
	return c
}

// write ignores errors: the server may have closed already, and says why in what it sent.
func (c *rawClient) write(parts ...string) {
	for _, part := range parts {
		if _, err := io.WriteString(c.raw, part); err != nil {
			return
		}
	}
}

// frame reads one frame, which the server must not mask.
func (c *rawClient) frame() (kind int, content string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.src, head[:]); err != nil {
		return 0, "", err
	}
	size := uint64(head[1])
	for code, n := range map[uint64]int{126: 2, 127: 8} {
		if uint64(head[1]) == code {
			long := make([]byte, 8)
			if _, err := io.ReadFull(c.src, long[8-n:]); err != nil {
				return 0, "", err
			}
			size = binary.BigEndian.Uint64(long)
		}
	}
	if head[0]&0xf0 != ws.Final || size > 1<<20 {
		return 0, "", fmt.Errorf("a frame begins with %x", head)
	}
	body := make([]byte, size)
	_, err = io.ReadFull(c.src, body)
	return int(head[0] & 0xf), string(body), err
}

// readAll reads until the server hangs up, and names the frames, separated by spaces: a reply by its
// request's id, an error by its code, a pong with its content, a close frame with its code.
func (c *rawClient) readAll() string {
	c.t.Helper()
	var names []string
	for {
		kind, content, err := c.frame()
		if err == io.EOF {
			return strings.Join(names, " ")
		}
		redistest.FatalIf(c.t, err != nil, "after %q: %v", names, err)
		names = append(names, frameName(kind, content))
	}
}

func frameName(kind int, content string) string {
	switch kind {
	case websocket.CloseMessage:
		if len(content) < 2 {
			return "close" + content
		}
		return fmt.Sprintf("close %d", binary.BigEndian.Uint16([]byte(content)))
	case websocket.PongMessage:
		return "pong" + content
	case websocket.TextMessage:
		if frame, err := protocol.DecodeFrame([]byte(content)); err == nil {
			if r, ok := frame.(*protocol.Reply); ok && r.Error != nil {
				return r.Error.Code
			} else if ok {
				return fmt.Sprint(*r.ID)
			}
		}
	}
	return fmt.Sprintf("%d %q", kind, content)
}

// Frames of clients; first, more and last are the fragments of a text message.
var (
	rawFrame = wstest.Frame
	text     = wstest.Text
	ping     = wstest.Ping
	pong     = wstest.Pong
	first    = wstest.First
	more     = wstest.More
	last     = wstest.Last
	closing  = wstest.Closing
)

func binaryMessage(content string) string { return rawFrame(ws.Final|websocket.BinaryMessage, content) }

// usersOf returns a request with that id.
func usersOf(id int) string { return fmt.Sprintf(`{"id":%d,"action":"users","room":"1"}`, id) }

// padded is usersOf with spaces up to size bytes.
func padded(id, size int) string {
	request := usersOf(id)
	return request + strings.Repeat(" ", size-len(request))
}

// octets cuts what is sent into writes of one byte each.
func octets(parts ...string) []string { return strings.Split(strings.Join(parts, ""), "") }

// chops cuts what is sent into writes of n bytes each.
func chops(n int, whole string) (parts []string) {
	for len(whole) > n {
		parts, whole = append(parts, whole[:n]), whole[n:]
	}
	return append(parts, whole)
}

func together(parts ...string) []string { return []string{strings.Join(parts, "")} }

// frameCase is a case of the Autobahn test suite, by its number there, with requests in place of
// echoes.
type frameCase struct {
	id   string
	sent []string // one write each
	want string   // what readAll returns
}

// runCases gives each case a connection of its own. Where the case does not end the connection,
// it must serve one more request.
func runCases(t *testing.T, cases []frameCase) {
	s := serve(t, sizedRooms{}, Options{Rate: -1}) // all cases are one user's
	seen := make(map[string]bool)
	for _, tt := range cases {
		redistest.ErrorIf(t, seen[tt.id], "two cases %s", tt.id)
		seen[tt.id] = true
		c := s.connectRaw(t)
		c.write(tt.sent...)
		want := tt.want
		if !strings.Contains(want, "close") {
			c.write(text(usersOf(99)), closing(websocket.CloseNormalClosure, ""))
			want = strings.TrimSpace(want + " 99 close 1000")
		}
		got := c.readAll()
		redistest.ErrorIf(t, got != want, "%s: got %q, want %q", tt.id, got, want)
		_ = c.raw.Close()
	}
}

// benchRooms answers every request with the same table of four.
type benchRooms struct {
	noRooms
	result room.Result

	mu      sync.Mutex
	watches []func(*room.Event) // guarded by mu
}

func newBenchRooms() *benchRooms {
	members := make(map[string]room.Member)
	for i := range 4 {
		members[fmt.Sprint("player-", i)] = room.Member{Seat: i, Session: "s", Node: "n"}
	}
	return &benchRooms{result: room.Result{Seat: 3, Snapshot: room.NewRoom("42", room.Position{Epoch: "abcdefghijklmnop", Version: 7}, members).Snapshot()}}
}

func (r *benchRooms) Do(context.Context, string, room.Action) (room.Result, error) {
	return r.result, nil
}

func (r *benchRooms) Read(context.Context, string) (room.Snapshot, error) {
	return r.result.Snapshot, nil
}

func (r *benchRooms) Watch(_ context.Context, _ string, fn func(*room.Event)) (func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches = append(r.watches, fn)
	return func() {}, nil
}

// benchClient sends encoded frames and reads frames of known length, so that what is measured is
// the server.
type benchClient struct {
	t    testing.TB
	raw  net.Conn
	read []byte
}

// benchClient connects one.
func (s *testNode) benchClient(b testing.TB, user string) *benchClient {
	ws, _, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/ws?user="+user, nil)
	redistest.OK(b, err)
	b.Cleanup(func() { _ = ws.Close() })
	return &benchClient{b, ws.NetConn(), make([]byte, 4096)}
}

// masked returns a client's frame.
func masked(content string) []byte {
	return append([]byte{ws.Final | websocket.TextMessage, 0x80 | byte(len(content)), 0, 0, 0, 0}, content...)
}

// ask returns the reply to a request, or nil if the connection has ended.
func (c *benchClient) ask(request []byte, reply int) {
	redistest.OK(c.t, redistest.Err(c.raw.Write(request)))
	c.hear(reply)
}

func (c *benchClient) hear(n int) {
	redistest.OK(c.t, redistest.Err(io.ReadFull(c.raw, c.read[:n])))
}

// frame reads a frame of any length.
func (c *benchClient) frame() {
	c.hear(2)
	n := int(c.read[1])
	if n == 126 {
		c.hear(2)
		n = int(c.read[0])<<8 | int(c.read[1])
	}
	c.hear(n)
}

// length sends a request and returns the length of its reply.
func (c *benchClient) length(request []byte) int {
	redistest.OK(c.t, redistest.Err(c.raw.Write(request)))
	n, err := c.raw.Read(c.read)
	redistest.FatalIf(c.t, err != nil || !bytes.HasSuffix(c.read[:n], []byte("}")), "%q, %v", c.read[:n], err)
	return n
}

// unwatchedRooms sends no events.
type unwatchedRooms struct{ *benchRooms }

func (unwatchedRooms) Watch(context.Context, string, func(*room.Event)) (func(), error) {
	return func() {}, nil
}

// panicLog remembers whether anything was logged to it.
type panicLog struct{ atomic.Bool }

func (l *panicLog) Write(line []byte) (int, error) {
	l.Store(true)
	return len(line), nil
}

// FuzzConnection checks that a server answers whatever it gets with frames that a client can read,
// hangs up, and does not panic.
func FuzzConnection(f *testing.F) {
	for _, seed := range wstest.Seeds {
		f.Add([]byte(seed))
	}
	panics := new(panicLog)
	log := slog.New(slog.NewTextHandler(panics, &slog.HandlerOptions{Level: slog.LevelError}))
	s := serve(f, unwatchedRooms{newBenchRooms()}, Options{Log: log, Grace: -1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := s.connectRaw(t)
		go func() {
			c.write(string(sent))
			_ = c.raw.(*net.TCPConn).CloseWrite()
		}()
		closed := false
		for {
			kind, content, err := c.frame()
			if err != nil {
				redistest.FatalIf(t, err != io.EOF, "%v", err)
				break
			}
			redistest.FatalIf(t, closed, "%d %q after a close frame", kind, content)
			switch kind {
			case websocket.CloseMessage:
				closed = true
				redistest.FatalIf(t, len(content) == 1 || len(content) > 125 || len(content) > 1 && !ws.ValidCloseCode(int(content[0])<<8|int(content[1])),
					"closed with %q", content)
			case websocket.TextMessage:
				if _, err := protocol.DecodeFrame([]byte(content)); err != nil {
					t.Fatalf("%q: %v", content, err)
				}
			case websocket.PongMessage:
			default:
				t.Fatalf("%d %q", kind, content)
			}
		}
		_ = c.raw.Close()
		redistest.FatalIf(t, panics.Load(), "a panic")
	})
}
