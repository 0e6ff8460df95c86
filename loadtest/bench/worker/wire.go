package worker

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"roomd/transport/protocol"
)

// The opcodes of frames, and the bits beside an opcode and a length.
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xa
	final   = 0x80
	masked  = 0x80
)

const (
	handshakeTimeout = time.Minute // far longer than a server may take
	readBuffer       = 1 << 10
	maxBody          = 4 << 10 // of a refusal that is read
)

// wire is a WebSocket without a library: ten thousand clients share the machine with the server, so each must be cheap.
type wire struct {
	net.Conn
	in      *bufio.Reader
	payload []byte // of the frame that was read last
}

// Refusal is a clear answer of the server other than the one that was hoped for.
type Refusal struct{ Kind string }

// Error returns the kind: "HTTP 503 unavailable", "busy", "closed with 4009".
func (r *Refusal) Error() string { return r.Kind }

// connect makes the TCP connection of the i-th client.
func connect(ctx context.Context, host string, i int) (net.Conn, error) {
	d := net.Dialer{}
	if from := source(i); from != nil {
		d.LocalAddr = from
	}
	return d.DialContext(ctx, "tcp", host)
}

// dial connects the i-th client to a server as a user. An answer of the server other than a
// WebSocket is a Refusal.
func dial(ctx context.Context, address, user string, i int) (*wire, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, u.Host, i)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn}
	w.in = bufio.NewReaderSize(w, readBuffer)
	if err := w.handshake(u, user); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return w, nil
}

// requestHead returns the beginning of a handshake: the lines that every client sends.
func requestHead(u *url.URL, user string) string {
	return fmt.Sprintf("GET %s?user=%s HTTP/1.1\r\nHost: %s\r\n", cmp.Or(u.Path, "/"), url.QueryEscape(user), u.Host)
}

func (w *wire) handshake(u *url.URL, user string) error {
	_ = w.SetDeadline(time.Now().Add(handshakeTimeout))
	request := requestHead(u, user) +
		"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	if _, err := io.WriteString(w, request); err != nil {
		return err
	}
	response, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody))
		return &Refusal{strings.TrimSpace(fmt.Sprintf("HTTP %d %s", response.StatusCode, errorCode(body)))}
	}
	return w.SetDeadline(time.Time{})
}

// errorCode returns the code of an error object, or nothing.
func errorCode(frame []byte) string {
	if decoded, err := protocol.DecodeFrame(frame); err == nil {
		if reply, ok := decoded.(*protocol.Reply); ok && reply.Error != nil {
			return reply.Error.Code
		}
	}
	return ""
}

// appendFrame appends a client's frame. Its mask is all zero, so the payload stays as it is.
func appendFrame(dst []byte, op byte, payload []byte) []byte {
	dst = append(dst, final|op)
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, masked|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, masked|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, masked|127), uint64(n))
	}
	return append(append(dst, 0, 0, 0, 0), payload...)
}

// next reads one frame of the server. The payload is good until the next call. A close frame is a
// Refusal.
func (w *wire) next() (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1])
	switch {
	case n == 126:
		var long [2]byte
		_, err = io.ReadFull(w.in, long[:])
		n = uint64(binary.BigEndian.Uint16(long[:]))
	case n == 127:
		var long [8]byte
		_, err = io.ReadFull(w.in, long[:])
		n = binary.BigEndian.Uint64(long[:])
	}
	const most = 16 << 20 // no frame of a server is longer
	if err == nil && (n > most || head[1]&masked != 0) {
		err = fmt.Errorf("the server sent a frame that begins with %x", head)
	}
	if err != nil {
		return 0, nil, err
	}
	if uint64(cap(w.payload)) < n {
		w.payload = make([]byte, n)
	}
	w.payload = w.payload[:n]
	if _, err := io.ReadFull(w.in, w.payload); err != nil {
		return 0, nil, err
	}
	if op = head[0] &^ final; op == opClose {
		code := uint16(1005) // no code
		if n >= 2 {
			code = binary.BigEndian.Uint16(w.payload)
		}
		return op, nil, &Refusal{fmt.Sprintf("closed with %d", code)}
	}
	return op, w.payload, nil
}
