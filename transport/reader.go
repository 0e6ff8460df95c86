package transport

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

var errEnded = errors.New("ended by the server")

// read reads frames and runs their requests, one after the other, until the connection ends.
// A panic ends this connection, not the node.
func (c *conn) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.server.troubles.panics.Happened(err, "user", c.session.user, "stack", string(debug.Stack()))
		}
	}()
	for {
		c.out.waitForSpace()
		if _, _, closing := c.closeReason(); closing {
			return errEnded
		}
		kind, from, err := c.ws.NextReader()
		if err != nil {
			return err
		}
		if err := c.receive(kind, from); err != nil {
			return err
		}
	}
}

// receive reads one frame, has the session handle it, and writes the reply.
func (c *conn) receive(kind int, from io.Reader) error {
	frame := getBuffer()
	defer putBuffer(frame)
	if _, err := frame.ReadFrom(from); err != nil {
		return err
	}
	c.extendReadDeadline()
	switch {
	case kind != websocket.TextMessage:
		c.end(protocol.CloseNotText, "only text frames are understood")
	case !utf8.Valid(frame.Bytes()): // gorilla does not check it
		c.end(protocol.CloseNotUTF8, "a text frame was not UTF-8")
	default:
		c.session.handle(frame.Bytes())
		c.writer.flush()
	}
	return nil
}

// extendReadDeadline gives the client two ping intervals for its next sign of life, or up to
// an eighth of one more, so that not every frame moves the deadline.
func (c *conn) extendReadDeadline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	interval := c.server.opts.PingInterval
	if now := time.Now(); !c.closing && c.deadline.Sub(now) < 2*interval {
		c.deadline = now.Add(2*interval + interval/8)
		_ = c.ws.SetReadDeadline(c.deadline)
	}
}

// ping asks the client for a sign of life, once per ping interval.
func (c *conn) ping() {
	if c.out.ping(controlFrame(websocket.PingMessage, nil)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pings.Reset(c.server.opts.PingInterval)
	}
}

// pong answers a ping of the client.
func (c *conn) pong(data string) error {
	c.out.waitForSpace()
	c.out.push(controlFrame(websocket.PongMessage, []byte(data)))
	c.writer.flush()
	return nil
}
