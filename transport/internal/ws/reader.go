package ws

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

var errEnded = errors.New("ended by the server")

// Read has the handler run the client's requests, one after the other, until the connection ends, and returns why. If
// the client closed it, that is a [websocket.CloseError].
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

// readOne waits for a frame, and reads it.
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
	if err := c.frames.socket.wait(); err != nil { // here, where little of the goroutine's stack is in use
		return err
	}
	return c.receive()
}

// receive reads one frame. If that begins a message it reads the whole, has it handled, and writes the reply.
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

// control handles a control frame of the client.
func (c *Conn) control(opcode byte, content []byte) error {
	switch opcode {
	case websocket.CloseMessage:
		return c.closedByClient(content)
	case websocket.PingMessage:
		c.out.Push(Control(websocket.PongMessage, content))
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

// ValidCloseCode reports whether a client may send a code (RFC 6455, section 7.4, and the codes
// that IANA has registered since).
func ValidCloseCode(code int) bool {
	switch code {
	case 1004, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure:
		return false
	}
	return 1000 <= code && code <= 1014 || 3000 <= code && code <= 4999
}
