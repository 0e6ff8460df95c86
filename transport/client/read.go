package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// read runs until the connection ends, then says why and lets go of everyone who waits.
func (c *Client) read() {
	var err error
	for err == nil {
		err = c.readFrame()
	}
	_ = c.conn.Close()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = closeError(err, c.cut)
	close(c.done)
}

func (c *Client) readFrame() error {
	if err := c.heard(); err != nil {
		return err
	}
	kind, data, err := c.conn.ReadMessage()
	if err != nil {
		return err
	}
	if kind != websocket.TextMessage {
		return c.reject(protocol.CloseNotText, "the server sent a frame that is not text")
	}
	frame, err := protocol.DecodeFrame(data)
	if err != nil {
		return c.reject(websocket.CloseProtocolError, err.Error())
	}
	switch f := frame.(type) {
	case *protocol.Event:
		if c.opts.OnEvent != nil {
			c.opts.OnEvent(f)
		}
	case *protocol.Reply:
		if c.opts.OnReply != nil {
			c.opts.OnReply(f)
		}
		c.deliver(f)
	}
	return nil
}

// deliver hands a reply to the request it answers, if that still waits.
func (c *Client) deliver(reply *protocol.Reply) {
	if reply.ID == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.waiting[*reply.ID]; ok {
		// Once only: the channel has room for one, and a second reply must not block reading.
		delete(c.waiting, *reply.ID)
		answer <- reply
	}
}

// heard gives the server another ReadTimeout to be heard from.
func (c *Client) heard() error {
	return c.conn.SetReadDeadline(time.Now().Add(c.opts.ReadTimeout))
}

// pong answers a ping, from within ReadMessage.
func (c *Client) pong(data string) error {
	// A pong that cannot be sent now is no reason to stop reading: if the connection is broken,
	// whoever writes next finds out, and a close frame may still be waiting to be read.
	_ = c.conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second))
	return c.heard()
}

// reject tells the server why its frame ends the connection.
func (c *Client) reject(code int, why string) error {
	message := websocket.FormatCloseMessage(code, "")
	_ = c.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
	return fmt.Errorf("closed here with code %d: %s", code, why)
}

// write sends what requests hand over, until the connection ends.
func (c *Client) write() {
	for {
		select {
		case frame := <-c.outgoing:
			err := c.writeFrame(frame)
			if errors.Is(err, websocket.ErrCloseSent) {
				return // whoever sent the close frame sees to the end
			}
			if err != nil {
				c.hangUp(fmt.Errorf("sending: %w", err))
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *Client) writeFrame(frame []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.opts.WriteTimeout)); err != nil {
		return err
	}
	return c.conn.WriteMessage(websocket.TextMessage, frame)
}
