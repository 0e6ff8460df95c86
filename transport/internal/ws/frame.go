package ws

import (
	"encoding/binary"

	"github.com/gorilla/websocket"
)

// Final says that a frame is a whole message (RFC 6455, section 5.2).
const Final = 0x80

// headerRoom is the longest header of a server's frame, in bytes.
const headerRoom = 10

// NewFrame returns a text frame with room for its header. The caller appends the content,
// about size bytes, and calls Seal.
func NewFrame(size int) []byte { return make([]byte, headerRoom, headerRoom+size) }

// Seal puts the header before the content of a text frame.
func Seal(frame []byte) []byte {
	var space [headerRoom]byte
	header := append(space[:0], Final|websocket.TextMessage)
	switch n := len(frame) - headerRoom; {
	case n < 126:
		header = append(header, byte(n))
	case n < 1<<16:
		header = binary.BigEndian.AppendUint16(append(header, 126), uint16(n))
	default:
		header = binary.BigEndian.AppendUint64(append(header, 127), uint64(n))
	}
	frame = frame[headerRoom-len(header):]
	copy(frame, header)
	return frame
}

// Control returns a frame of that kind. The content has at most 125 bytes.
func Control(kind int, content []byte) []byte {
	return append([]byte{Final | byte(kind), byte(len(content))}, content...)
}
