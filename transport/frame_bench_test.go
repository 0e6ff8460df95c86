package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/frames"
)

// changeTo is an event.
func changeTo(version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
		Changes: []room.Change{{Type: room.KindJoin, User: fmt.Sprint("u", version), Seat: int(version)}}}
}

// discard is a connection that drops what is written to it.
type discard struct{ net.Conn }

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// hijacked hands a connection to gorilla's Upgrader.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

func gorillaConn(b *testing.B) *websocket.Conn {
	near, far := net.Pipe()
	b.Cleanup(func() { near.Close(); far.Close() })
	go func() { _, _ = io.Copy(io.Discard, near) }()
	return gorillaOver(b, discard{far})
}

// gorillaOver returns gorilla's server side of a connection.
func gorillaOver(t testing.TB, conn net.Conn) *websocket.Conn {
	r := httptest.NewRequest("GET", "/ws", nil)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	var upgrader websocket.Upgrader
	ws, err := upgrader.Upgrade(hijacked{httptest.NewRecorder(), conn}, r, nil)
	redistest.OK(t, err)
	return ws
}

// BenchmarkEventFrame encodes an event and writes it to four clients, by hand and by gorilla's
// PreparedMessage.
func BenchmarkEventFrame(b *testing.B) {
	const clients = 4
	event := func() *room.Event { return changeTo(7) }
	b.Run("hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e := event()
			for range clients {
				_, _ = discard{}.Write(frames.Of(e).For(room.Viewer{}, nil))
			}
		}
	})
	b.Run("gorilla", func(b *testing.B) {
		var conns []*websocket.Conn
		for range clients {
			conns = append(conns, gorillaConn(b))
		}
		b.ReportAllocs()
		for b.Loop() {
			content := frames.Changes(room.Viewer{}, nil, event())
			message, err := websocket.NewPreparedMessage(websocket.TextMessage, content[2:])
			redistest.OK(b, err)
			for _, ws := range conns {
				redistest.OK(b, ws.WritePreparedMessage(message))
			}
		}
	})
}
