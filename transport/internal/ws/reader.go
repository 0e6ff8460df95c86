package ws

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

var errEnded = errors.New("ended by the server")

// Read passes the client's requests to the handler, one after the other, until the connection ends, and returns why:
// a [websocket.CloseError] if the client closed it.
func (c *Conn) Read() error {
	for {
		if err := c.readOne(); err != nil {
			if broken, ok := errors.AsType[*CloseError](err); ok {
				c.handler.Broken(broken, c.max)
				c.End(broken.Code, broken.Text)
			}
			return c.ended(err)
		}
	}
}

func (c *Conn) readOne() error {
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
	if err := c.frames.socket.wait(); err != nil { // here the goroutine's stack is still small
		return err
	}
	return c.receive()
}

// receive reads one frame. If it begins a message, receive reads all of it, runs the handler, and writes the reply.
func (c *Conn) receive() error {
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
	c.handler.Handle(content.Bytes())
	c.writer.flush()
	return nil
}

func (c *Conn) control(opcode byte, content []byte) error {
	switch opcode {
	case websocket.CloseMessage:
		return c.closedByClient(content)
	case websocket.PingMessage:
		c.out.Push(Control(websocket.PongMessage, content))
		// Pongs to pings that arrived together are written together: a system call for each would let one client keep
		// a core busy. Within a message the rest may take long to arrive.
		if c.frames.inMessage || !c.frames.socket.hasMore() {
			c.writer.flush()
		}
	}
	if !c.frames.inMessage { // the client might never end the message
		c.hear()
	}
	return nil
}

// closedByClient answers a close frame with its code, and returns the error that ends the connection.
func (c *Conn) closedByClient(content []byte) error {
	code, reason := websocket.CloseNoStatusReceived, []byte(nil)
	if len(content) > 0 {
		if len(content) < 2 {
			return violation("a close code of one byte")
		}
		code, reason = int(binary.BigEndian.Uint16(content)), content[2:]
		if !ValidCloseCode(code) {
			return violation("a close code that must not be sent")
		}
	}
	if !utf8.Valid(reason) {
		return errNotUTF8
	}
	c.End(code, "")
	return &websocket.CloseError{Code: code, Text: string(reason)}
}

// ValidCloseCode reports whether a client may send a code (RFC 6455, section 7.4, and later registrations at IANA).
func ValidCloseCode(code int) bool {
	switch code {
	case 1004, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure:
		return false
	}
	return 1000 <= code && code <= 1014 || 3000 <= code && code <= 4999
}
