package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

var errEnded = errors.New("ended by the server")

// read reads frames and runs their requests, one after the other, until the connection ends.
// A panic ends this connection, not the node.
func (c *conn) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.out.Discard() // of the reply, too: the close frame of a restart would say that the request was not begun
			c.server.rateLimitedLogs.panics.Happened(err, "user", c.session.user, "stack", string(debug.Stack()))
		}
	}()
	for {
		if !c.frames.socket.hasMore() {
			c.writer.flush() // pongs
		}
		c.out.WaitForSpace()
		if _, _, closing := c.closeReason(); closing {
			return errEnded
		}
		if c.alive.busy.Load() {
			c.hear()
			c.alive.busy.Store(false)
		}
		err := c.frames.socket.wait() // here, where little of the goroutine's stack is in use
		if err == nil {
			err = c.receive()
		}
		if err != nil {
			if broken, ok := errors.AsType[*closeError](err); ok {
				c.refuseFrame(broken)
				c.end(broken.code, broken.text)
			}
			return err
		}
	}
}

// refuseFrame says which limit a frame exceeds, before the connection is closed for it.
func (c *conn) refuseFrame(broken *closeError) {
	switch broken.code {
	case protocol.CloseTooBig:
		c.server.opts.Trace.refused(LimitFrame)
		c.out.Push(frames.Reply(&protocol.Reply{Error: protocol.NewError(protocol.CodeTooLarge,
			"a request has at most %d bytes", c.frames.max)}))
	case protocol.CloseTooMany, protocol.ClosePolicy:
		c.server.opts.Trace.refused(LimitFlood)
	}
}

// receive reads one frame. If that begins a message it reads the whole, has the session handle
// it, and writes the reply.
func (c *conn) receive() error {
	h, message, err := c.frames.next()
	if err != nil || !message {
		return err
	}
	content := getBuffer()
	defer putBuffer(content)
	if err := c.frames.readText(h, content); err != nil {
		return err
	}
	c.alive.busy.Store(true)
	c.session.handle(content.Bytes())
	c.writer.flush()
	return nil
}

// control handles a control frame of the client.
func (c *conn) control(opcode byte, content []byte) error {
	switch opcode {
	case websocket.CloseMessage:
		return c.closedByClient(content)
	case websocket.PingMessage:
		c.out.Push(frames.Control(websocket.PongMessage, content))
		// Those of the pings that have arrived together are written together, since a system call
		// for each would let one client keep a core busy. In a message the rest may be long in coming.
		if c.frames.inMessage || !c.frames.socket.hasMore() {
			c.writer.flush()
		}
	}
	if !c.frames.inMessage { // which the client might otherwise never end
		c.hear()
	}
	return nil
}

// closedByClient answers a close frame with its code, and returns why the connection ends.
func (c *conn) closedByClient(content []byte) error {
	code, reason := websocket.CloseNoStatusReceived, []byte(nil)
	if len(content) > 0 {
		if len(content) < 2 {
			return violation("a close code of one byte")
		}
		code, reason = int(binary.BigEndian.Uint16(content)), content[2:]
		if !validCloseCode(code) {
			return violation("a close code that must not be sent")
		}
	}
	if !utf8.Valid(reason) {
		return errNotUTF8
	}
	c.end(code, "")
	return &websocket.CloseError{Code: code, Text: string(reason)}
}

// validCloseCode reports whether a client may send a code (RFC 6455, section 7.4, and the codes
// that IANA has registered since).
func validCloseCode(code int) bool {
	switch code {
	case 1004, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure:
		return false
	}
	return 1000 <= code && code <= 1014 || 3000 <= code && code <= 4999
}
