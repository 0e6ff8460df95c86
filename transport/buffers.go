package transport

import (
	"bytes"
	"sync"
)

// maxKept is how large a buffer may have become to be used again.
const maxKept = 4 * enough

// buffers are those in which frames are read and put together. A connection has one
// only meanwhile: most have nothing to say most of the time.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxKept {
		b.Reset()
		buffers.Put(b)
	}
}
