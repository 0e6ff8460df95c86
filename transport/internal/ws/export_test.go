package ws

import "bytes"

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
