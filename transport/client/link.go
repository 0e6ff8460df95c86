package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// link is a client's WebSocket, with the goroutine that reads it and the one that writes it.
type link struct {
	conn  *websocket.Conn
	opts  Options
	calls *calls

	began      time.Time
	heard      atomic.Int64   // when bytes of the server came last: nanoseconds since began
	outgoing   chan []byte    // frames for the writing goroutine
	closeOnce  sync.Once      // only the first Close sends a close frame
	goroutines sync.WaitGroup // the two that run

	mu  sync.Mutex
	cut error // guarded by mu: why this side closed the socket, nil if it did not
}

func startLink(conn *websocket.Conn, opts Options) *link {
	l := &link{conn: conn, opts: opts, calls: newCalls(), began: time.Now(), outgoing: make(chan []byte)}
	conn.SetReadLimit(readLimit)
	conn.SetPingHandler(l.pong)
	conn.SetPongHandler(func(string) error { return l.hear() })
	l.goroutines.Go(l.read)
	l.goroutines.Go(l.write)
	return l
}

// read reads until the connection ends, and then records why.
func (l *link) read() {
	var err error
	for err == nil {
		err = l.readFrame()
	}
	_ = l.conn.Close()

	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	l.calls.end(closeError(err, cut))
}

func (l *link) readFrame() error {
	if err := l.extendReadDeadline(); err != nil {
		return err
	}
	kind, from, err := l.conn.NextReader()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(&heardReader{l, from})
	if err != nil {
		return err
	}
	if kind != websocket.TextMessage {
		return l.reject(protocol.CloseNotText, "the server sent a frame that is not text")
	}
	frame, err := protocol.DecodeFrame(data)
	if err != nil {
		return l.reject(websocket.CloseProtocolError, err.Error())
	}
	switch f := frame.(type) {
	case *protocol.Event:
		if l.opts.OnEvent != nil {
			l.opts.OnEvent(f)
		}
	case *protocol.Reply:
		if l.opts.OnReply != nil {
			l.opts.OnReply(f)
		}
		l.calls.deliver(f)
	}
	return nil
}

func (l *link) extendReadDeadline() error {
	return l.conn.SetReadDeadline(time.Now().Add(l.opts.ReadTimeout))
}

// hear records that the server lives.
func (l *link) hear() error {
	l.heard.Store(int64(time.Since(l.began)))
	return l.extendReadDeadline()
}

// silence returns for how long nothing has come from the server.
func (l *link) silence() time.Duration {
	return time.Since(l.began) - time.Duration(l.heard.Load())
}

// heardReader reads a frame, which may be so long that no pong comes in between for a while.
type heardReader struct {
	link *link
	from io.Reader
}

func (r *heardReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if n > 0 {
		r.link.heard.Store(int64(time.Since(r.link.began)))
	}
	return n, err
}

// ping asks the server for a sign of life.
func (l *link) ping() {
	// If it cannot be sent, no answer comes, and the client drops the connection.
	_ = l.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
}

// drop closes the socket at once, so that the server keeps the user's seats.
func (l *link) drop(reason error) {
	l.mu.Lock()
	l.cut = cmp.Or(l.cut, reason)
	l.mu.Unlock()
	l.cutOff()
}

// pong answers a ping, from within ReadMessage.
func (l *link) pong(data string) error {
	// If it cannot be sent the reading goes on: the next write finds out what is wrong, and a
	// close frame may still be waiting to be read.
	_ = l.conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second))
	return l.hear()
}

// reject tells the server why its frame ends the connection.
func (l *link) reject(code int, why string) error {
	message := websocket.FormatCloseMessage(code, "")
	_ = l.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
	return fmt.Errorf("closed here with code %d: %s", code, why)
}

// write writes the frames of requests, until the connection ends.
func (l *link) write() {
	for {
		select {
		case frame := <-l.outgoing:
			err := l.writeFrame(frame)
			if errors.Is(err, websocket.ErrCloseSent) {
				return // whoever sent the close frame ends the connection
			}
			if err != nil {
				l.hangUp(fmt.Errorf("sending: %w", err))
				return
			}
		case <-l.calls.done:
			return
		}
	}
}

func (l *link) writeFrame(frame []byte) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(l.opts.WriteTimeout)); err != nil {
		return err
	}
	return l.conn.WriteMessage(websocket.TextMessage, frame)
}

// hangUp gives the reader closeWait to read what the server has sent, above all its close frame,
// and then closes the socket for the reason given.
func (l *link) hangUp(reason error) {
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-l.calls.done:
	case <-timer.C:
		l.drop(reason)
	}
}

// cutOff closes the socket at once. Under TLS it says no goodbye, for which a server that reads
// nothing could make it wait.
func (l *link) cutOff() {
	if secure, ok := l.conn.NetConn().(*tls.Conn); ok {
		_ = secure.NetConn().Close()
		return
	}
	_ = l.conn.Close()
}
