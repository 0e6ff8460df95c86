package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

const (
	writeTimeout = 10 * time.Second // of a frame

	// closeWait is how long a node may take to close a connection.
	closeWait = 5 * time.Second
)

// errEnded says that the connection ended before the reply.
var errEnded = errors.New("the connection ended")

// conn is a player's connection, with one request at a time. A goroutine reads it.
type conn struct {
	socket  *websocket.Conn
	next    int64 // id of the next request
	replies chan *message
	done    chan struct{} // closed at the end of the connection
	why     error         // reason of the end; read it after done is closed
	once    sync.Once
}

// dial connects user, with token unless that is empty. The reading goroutine calls heard with each reply and
// event in order.
func dial(ctx context.Context, address, user, token string, d *decoder, heard func(*message)) (*conn, error) {
	dialer := websocket.Dialer{HandshakeTimeout: closeWait, Subprotocols: []string{protocol.Subprotocol}}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	socket, resp, err := dialer.DialContext(ctx, address+"?user="+url.QueryEscape(user), header)
	if err != nil {
		if resp != nil {
			err = fmt.Errorf("HTTP %s: %w", resp.Status, err)
		}
		return nil, err
	}
	c := &conn{socket: socket, replies: make(chan *message, 1), done: make(chan struct{})}
	go c.read(d, heard)
	return c, nil
}

// read reads until the connection ends. It reuses its memory.
func (c *conn) read(d *decoder, heard func(*message)) {
	defer close(c.done)
	defer c.socket.Close()
	var frame bytes.Buffer
	for {
		kind, from, err := c.socket.NextReader()
		if err == nil && kind != websocket.TextMessage {
			err = errors.New("the server sent a frame that is not text")
		}
		frame.Reset()
		if err == nil {
			_, err = frame.ReadFrom(from)
		}
		var m *message
		if err == nil {
			m, err = d.decode(frame.Bytes())
		}
		if err != nil {
			c.why = err
			return
		}
		heard(m)
		if m.reply != nil {
			select {
			case c.replies <- m:
			default: // it answers no request; heard reports that
			}
		}
	}
}

// over reports whether the connection has ended.
func (c *conn) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// do sends a request and waits for its reply, which may be a refusal. After an error the server may have
// carried out the request.
func (c *conn) do(ctx context.Context, r protocol.Request) (*message, error) {
	r.ID = c.next
	c.next++
	_ = c.socket.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := c.socket.WriteMessage(websocket.TextMessage, protocol.AppendRequest(nil, &r)); err != nil {
		_ = c.socket.Close()
		<-c.done
		return nil, fmt.Errorf("%w: %w", errEnded, c.why)
	}
	select {
	case m := <-c.replies:
		if m.reply.ID == nil || *m.reply.ID != r.ID {
			return nil, fmt.Errorf("not the reply to request %d: %+v", r.ID, *m.reply)
		}
		return m, nil
	case <-c.done:
		return nil, fmt.Errorf("%w: %w", errEnded, c.why)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close sends a close frame, so that the server frees the connection at once, and waits for the reader. A
// second call does nothing.
func (c *conn) Close() {
	c.once.Do(func() {
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = c.socket.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
		select {
		case <-c.done:
		case <-time.After(closeWait):
			_ = c.socket.Close()
		}
	})
	<-c.done
}
