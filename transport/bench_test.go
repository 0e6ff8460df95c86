package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/internal/ws"
)

// benchRooms answers every request with the same table of four.
type benchRooms struct {
	result room.Result

	mu      sync.Mutex
	watches []func(*room.Event) // guarded by mu
}

func (*benchRooms) Now() int64 { return 0 }

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

func (r *benchRooms) Move(context.Context, string, string, string, ...string) (left, joined room.Result, err error) {
	return left, joined, room.ErrUnavailable
}

func (r *benchRooms) Kept(context.Context, string, int) (room.Kept, error) { return room.Kept{}, nil }

func (r *benchRooms) Match(context.Context, coordinator.Wanted, func(context.Context, string, *room.Settings) (room.Result, error)) error {
	return room.ErrUnavailable
}

func (r *benchRooms) Ping(context.Context) error  { return nil }
func (r *benchRooms) Ready(context.Context) error { return nil }

func (r *benchRooms) AnswerFor(func(room, session string) bool) {}

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
	if _, err := c.raw.Write(request); err != nil {
		c.t.Fatal(err)
	}
	c.hear(reply)
}

func (c *benchClient) hear(n int) {
	if _, err := io.ReadFull(c.raw, c.read[:n]); err != nil {
		c.t.Fatal(err)
	}
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
	if _, err := c.raw.Write(request); err != nil {
		c.t.Fatal(err)
	}
	n, err := c.raw.Read(c.read)
	if err != nil || !bytes.HasSuffix(c.read[:n], []byte("}")) {
		c.t.Fatalf("%q, %v", c.read[:n], err)
	}
	return n
}
