// Package wstest makes the frames of clients, including those that no library would send, and a connection of gorilla,
// to compare ours with.
package wstest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/internal/ws"
)

// Mask is the mask of all frames made here.
const Mask = "\x12\x9a\x56\xff"

// Frame returns a client's frame that begins with the byte first.
func Frame(first byte, content string) string {
	frame := []byte{first}
	switch n := len(content); {
	case n < 126:
		frame = append(frame, 0x80|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	frame = append(frame, Mask...)
	for i := range len(content) {
		frame = append(frame, content[i]^Mask[i%4])
	}
	return string(frame)
}

// Text returns a whole text message.
func Text(content string) string { return Frame(ws.Final|websocket.TextMessage, content) }

// Ping returns a ping.
func Ping(content string) string { return Frame(ws.Final|websocket.PingMessage, content) }

// Pong returns a pong.
func Pong(content string) string { return Frame(ws.Final|websocket.PongMessage, content) }

// First returns the first fragment of a text message.
func First(content string) string { return Frame(websocket.TextMessage, content) }

// More returns a fragment of a message.
func More(content string) string { return Frame(0, content) }

// Last returns the last fragment of a message.
func Last(content string) string { return Frame(ws.Final, content) }

// Fragments returns a text message in n frames, at least two.
func Fragments(content string, n int) string {
	return First(content) + strings.Repeat(More(""), n-2) + Last("")
}

// Closing returns a close frame.
func Closing(code int, reason string) string {
	return Frame(ws.Final|websocket.CloseMessage, string(binary.BigEndian.AppendUint16(nil, uint16(code)))+reason)
}

// Seeds are inputs for fuzzing: the bytes that a client sends.
var Seeds = []string{
	Text(request) + Closing(1000, "bye"),
	First(request[:9]) + Ping("a") + More(request[9:11]) + Last(request[11:]) + Text("{}"),
	Text(strings.Repeat(" ", 200)) + Pong("") + Frame(ws.Final|websocket.CloseMessage, "a"),
	Text(strings.Repeat("x", 16<<10)) + Text("é")[:7],
	First("κόσμε") + More("\xf4\x90\x80\x80"),
	Fragments(request, ws.MaxFragments+1),
	"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff1234",
}

const request = `{"id":1,"action":"users","room":"1"}`

// Gorilla returns gorilla's server side of a connection.
func Gorilla(t testing.TB, conn net.Conn) *websocket.Conn {
	r := httptest.NewRequest("GET", "/ws", nil)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	var upgrader websocket.Upgrader
	socket, err := upgrader.Upgrade(hijacked{httptest.NewRecorder(), conn}, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return socket
}

type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// Reading returns a connection that reads from src, and drops all that is written to it.
func Reading(src io.Reader) net.Conn { return reading{src: src} }

type reading struct {
	net.Conn
	src io.Reader
}

func (c reading) Read(p []byte) (int, error)       { return c.src.Read(p) }
func (c reading) Write(p []byte) (int, error)      { return len(p), nil }
func (c reading) SetDeadline(time.Time) error      { return nil }
func (c reading) SetWriteDeadline(time.Time) error { return nil }
