package ws

import (
	"bytes"
	"time"
)

var (
	NewFrameReader = newFrameReader
	Unmask         = unmask
	HasClose       = hasClose
)

// ReadMessage appends the next message.
func (r *frameReader) ReadMessage(into *bytes.Buffer) error {
	for {
		if err := r.socket.wait(); err != nil {
			return err
		}
		h, message, err := r.next()
		if err != nil {
			return err
		}
		if message {
			return r.readText(h, into)
		}
	}
}

func (c *Conn) Beat(now, step time.Duration) (next time.Duration) { return c.beat(now, step) }

func (c *Conn) Unsent() int64 { return c.unsent() }
