package ws

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

// batchSize is how many bytes are written at once. The last frame may exceed it.
const batchSize = 16 << 10

// chunkSize is how much of a long frame has to be written within WriteTimeout, so that slow readers get long frames.
const chunkSize = 4 * batchSize

// writer writes a connection's queue to its socket, without a goroutine that waits for frames. The reader writes the
// reply to its request (flush). For other frames the queue calls startWriting, and the flusher writes; if the socket
// does not accept all at once, a goroutine writes the rest. The queue allows one writer at a time.
type writer struct {
	conn    *Conn
	running sync.WaitGroup // the flusher's writes, and goroutines
	sent    atomic.Int64   // bytes given to the kernel

	// Used only by the current writer; the queue decides who that is.
	frames   [][]byte
	deadline time.Time // as set on the socket
	rest     []byte    // of the write that failed
}

// flush writes one batch of the queue, unless a writer runs. The flusher writes the rest: the reader has to read.
func (w *writer) flush() {
	if w.conn.out.Claim() && w.send() {
		w.conn.startWriting()
	}
}

// startWriting makes the flusher write until the queue is empty. Only the queue's current writer may call it.
func (c *Conn) startWriting() {
	c.writer.running.Add(1)
	c.group.flusher.add(&c.writer)
}

// flushReady writes some queued frames, for the flusher, and does not block: a goroutine writes on if the socket is
// full.
func (w *writer) flushReady(try *attempt) {
	w.take()
	switch {
	case !w.tryTaken(try):
		w.running.Go(func() {
			for more := w.sendTaken(); more; more = w.send() {
			}
		})
	case w.conn.out.KeepWriting():
		w.conn.startWriting()
	}
	w.running.Done()
}

// send writes some queued frames, and reports whether to go on. If the write fails, the connection ends.
func (w *writer) send() (more bool) {
	w.take()
	return w.sendTaken()
}

// sendTaken is send for frames that take returned.
func (w *writer) sendTaken() (more bool) {
	err, group := w.writeTaken(), w.conn.group
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded) &&
		w.conn.End(group.TooSlow, "nothing was read for "+group.WriteTimeout.String()):
		w.conn.out.Cut(w.rest)
	default:
		w.conn.End(0, fmt.Sprintf("writing: %v", err))
		w.conn.out.Cut(nil)
	}
	return w.conn.out.KeepWriting()
}

// take fetches about batchSize bytes of queued frames. It reports false if there are none.
func (w *writer) take() bool {
	w.frames = w.conn.handler.Take(w.frames[:0], batchSize)
	return len(w.frames) > 0
}

func (w *writer) writeTaken() error {
	defer w.written()
	return w.writeFrames(w.frames)
}

// tryTaken writes the fetched frames by one system call that does not block. It reports false if some bytes remain.
func (w *writer) tryTaken(try *attempt) (done bool) {
	size := 0
	for _, f := range w.frames {
		size += len(f)
	}
	switch {
	case size == 0:
		w.written()
		return true
	case size > 2*batchSize, w.conn.frames.socket.raw == nil:
		return false
	}
	content := w.frames[0]
	if len(w.frames) > 1 {
		joined := getBuffer()
		defer putBuffer(joined)
		for _, f := range w.frames {
			joined.Write(f)
		}
		content = joined.Bytes()
	}
	n := try.write(w.conn.frames.socket.raw, content)
	w.sent.Add(int64(n))
	if n < size {
		w.frames = append(w.frames[:0], bytes.Clone(content[n:]))
		return false
	}
	w.written()
	return true
}

func (w *writer) written() {
	clear(w.frames)
	w.conn.out.Written()
}

// writeFrames writes short frames by one system call, and a long one without copying it.
func (w *writer) writeFrames(frames [][]byte) error {
	if len(frames) == 1 {
		return w.write(frames[0])
	}
	short := getBuffer()
	defer putBuffer(short)
	for _, f := range frames {
		if len(f) < batchSize {
			short.Write(f)
			continue
		}
		if err := w.writeShort(short); err != nil {
			return err
		}
		if err := w.write(f); err != nil {
			return err
		}
	}
	return w.writeShort(short)
}

func (w *writer) writeShort(short *bytes.Buffer) error {
	err := w.write(short.Bytes())
	w.rest = bytes.Clone(w.rest) // the buffer is reused
	short.Reset()
	return err
}

// write writes whole frames. If it fails, rest is the unwritten part. It fails with os.ErrDeadlineExceeded if the
// client reads nothing for WriteTimeout.
func (w *writer) write(p []byte) (err error) {
	for n := 0; len(p) > 0; p = p[n:] {
		began := w.extendDeadline()
		if n, err = w.conn.raw.Write(p[:min(len(p), chunkSize)]); n > 0 && time.Since(began) > waited {
			w.conn.hear()
		}
		w.sent.Add(int64(n))
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			w.rest = p[n:]
			return err
		}
	}
	w.rest = nil
	return nil
}

// extendDeadline gives the client WriteTimeout, or up to an eighth more, and returns the present time. It does not
// move the deadline at every write: that costs as much as encoding a frame.
func (w *writer) extendDeadline() time.Time {
	now, timeout := time.Now(), w.conn.group.WriteTimeout
	if w.deadline.Sub(now) < timeout {
		w.deadline = now.Add(timeout + timeout/8)
		w.conn.extendWriteDeadline(w.deadline)
	}
	return now
}

// maxReused is the capacity up to which a buffer is reused.
const maxReused = 4 * batchSize

// buffers lend memory to frames that are being read or joined. Most connections are silent, and need none.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxReused {
		b.Reset()
		buffers.Put(b)
	}
}

// flushesAtOnce is how many writers a goroutine fetches at a time. If more per goroutine wait, another one starts.
const flushesAtOnce = 8

// flusher writes events and pings, as far as the sockets accept them at once. A few goroutines serve all connections,
// because one per member and event would be too many; none runs while there is nothing to write.
type flusher struct {
	running sync.WaitGroup

	tries sync.Pool // of *attempt

	mu         sync.Mutex
	ready      []*writer // guarded by mu: in order of arrival
	goroutines int       // guarded by mu: running ones
}

// add schedules a write. It does not block.
func (f *flusher) add(w *writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = append(f.ready, w)
	if f.goroutines == 0 || len(f.ready) > f.goroutines*flushesAtOnce && f.goroutines < runtime.GOMAXPROCS(0) {
		f.goroutines++
		f.running.Add(1)
		go f.run() // running.Go would allocate twice
	}
}

func (f *flusher) run() {
	defer f.running.Done()
	try, _ := f.tries.Get().(*attempt)
	if try == nil {
		try = newAttempt()
	}
	defer f.tries.Put(try)
	var taken [flushesAtOnce]*writer
	for {
		n := f.take(taken[:])
		if n == 0 {
			return
		}
		for _, w := range taken[:n] {
			w.flushReady(try)
		}
	}
}

// take moves the first ready writers to into. If it returns 0, the goroutine has to end.
func (f *flusher) take(into []*writer) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = copy(into, f.ready)
	rest := copy(f.ready, f.ready[n:])
	clear(f.ready[rest:])
	f.ready = f.ready[:rest]
	if n == 0 {
		f.goroutines--
	}
	return n
}

// attempt writes to sockets without waiting. Only one goroutine may use it at a time.
type attempt struct {
	try  func(fd uintptr) bool // once, so that writing allocates nothing
	left []byte                // the rest to write
}

func newAttempt() *attempt {
	a := new(attempt)
	a.try = a.tryWrite
	return a
}

// write writes as much of p as the socket accepts at once, and returns the number of bytes.
func (a *attempt) write(socket syscall.RawConn, p []byte) (n int) {
	a.left = p
	_ = socket.Write(a.try) // writing the rest meets the error again
	n = len(p) - len(a.left)
	a.left = nil
	return n
}

func (a *attempt) tryWrite(fd uintptr) (done bool) {
	for {
		n, err := writeSocket(fd, a.left)
		if err == syscall.EINTR {
			continue
		}
		a.left = a.left[max(n, 0):]
		return true
	}
}

// Final marks a frame that ends a message (RFC 6455, section 5.2).
const Final = 0x80

// headerRoom is the longest header of a server's frame, in bytes.
const headerRoom = 10

// NewFrame returns a text frame for about size bytes of content. The caller appends them, and calls Seal.
func NewFrame(size int) []byte { return make([]byte, headerRoom, headerRoom+size) }

// Seal puts the header before the content of a text frame, and returns the frame.
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

// Control returns a control frame. The content has at most 125 bytes.
func Control(kind int, content []byte) []byte {
	return append([]byte{Final | byte(kind), byte(len(content))}, content...)
}
