package ws

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// batchSize is how many bytes are written at once, if that many wait. The last frame may go beyond it.
const batchSize = 16 << 10

// chunkSize is how much of a long frame has to be written within Options.WriteTimeout. A client that reads
// slowly gets the whole frame all the same.
const chunkSize = 4 * batchSize

// writer writes a connection's outbox to its socket. No goroutine waits for something to write: the reader writes the
// reply to its request (flush), and the outbox has the flusher write what comes by itself (StartWriting); what the
// socket does not take at once gets a goroutine of its own. The outbox makes sure that there is one writer at a time.
type writer struct {
	conn    *Conn
	running sync.WaitGroup // the flusher's writing, and goroutines
	sent    atomic.Int64   // bytes that the kernel has been given

	// Used only by the current writer; the outbox decides who that is.
	frames   [][]byte
	deadline time.Time // that is set on the socket
	rest     []byte    // of the write that has failed
}

// flush writes what is queued, unless there is a writer. It leaves what comes meanwhile to
// another goroutine, since the reader has to go back to its client.
func (w *writer) flush() {
	if w.conn.out.Claim() && w.send() {
		w.conn.StartWriting()
	}
}

// StartWriting has the flusher write until nothing is queued. Only the queue's writer may call it.
func (c *Conn) StartWriting() {
	c.writer.running.Add(1)
	c.group.flusher.add(&c.writer)
}

// flushReady writes some of what is queued, for the flusher. It does not block.
func (w *writer) flushReady(try *attempt) {
	w.take()
	switch {
	case !w.tryTaken(try):
		w.running.Go(func() {
			for more := w.sendTaken(); more; more = w.send() {
			}
		})
	case w.conn.out.KeepWriting():
		w.conn.StartWriting()
	}
	w.running.Done()
}

// send writes some of what is queued, and reports whether to go on. If the write fails, the connection ends.
func (w *writer) send() (more bool) {
	w.take()
	return w.sendTaken()
}

// sendTaken is send for what take has taken.
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

// take takes about batchSize of what is queued, to be written next. It reports false if that is nothing.
func (w *writer) take() bool {
	w.frames = w.conn.handler.Take(w.frames[:0], batchSize)
	return len(w.frames) > 0
}

// writeTaken writes what was taken.
func (w *writer) writeTaken() error {
	defer w.written()
	return w.writeFrames(w.frames)
}

// tryTaken writes what was taken, and reports true, if that is possible with one system call that does not block.
// If the socket takes only a part, the rest is still to be written.
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

// written records that nothing of what was taken is still to be written.
func (w *writer) written() {
	clear(w.frames)
	w.conn.out.Written()
}

// writeFrames writes short frames with one system call, and a long one without copying it.
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

// writeShort empties a buffer of short frames.
func (w *writer) writeShort(short *bytes.Buffer) error {
	err := w.write(short.Bytes())
	w.rest = bytes.Clone(w.rest) // the buffer is used again
	short.Reset()
	return err
}

// write writes some whole frames. It fails with os.ErrDeadlineExceeded if the client reads nothing
// for the time of Options.WriteTimeout. Then rest is what is not written of the frames.
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

// extendDeadline gives the client WriteTimeout, or up to an eighth more: moving the deadline costs
// as much as encoding a frame, so not every write does it. It returns the time.
func (w *writer) extendDeadline() time.Time {
	now, timeout := time.Now(), w.conn.group.WriteTimeout
	if w.deadline.Sub(now) < timeout {
		w.deadline = now.Add(timeout + timeout/8)
		w.conn.extendWriteDeadline(w.deadline)
	}
	return now
}

// maxReused is how large a buffer may have grown to be used again.
const maxReused = 4 * batchSize

// buffers hold frames that are being read or joined. Most connections are silent most of the
// time, so none has a buffer of its own.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxReused {
		b.Reset()
		buffers.Put(b)
	}
}

// flushesAtOnce is how many connections a goroutine of the flusher takes at a time. If more than that wait for
// each goroutine there is to be another one.
const flushesAtOnce = 8

// flusher writes what connections have to be sent by themselves, such as events, as far as their sockets take it at
// once. A few goroutines do so for all connections, since an event to each of a room's members would else begin
// and end a goroutine for each; none runs while there is nothing to write.
type flusher struct {
	running sync.WaitGroup

	tries sync.Pool // of *attempt

	mu         sync.Mutex
	ready      []*writer // guarded by mu: in order
	goroutines int       // guarded by mu: how many run
}

// add has a connection written soon. It does not block.
func (f *flusher) add(w *writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = append(f.ready, w)
	if f.goroutines == 0 || len(f.ready) > f.goroutines*flushesAtOnce && f.goroutines < runtime.GOMAXPROCS(0) {
		f.goroutines++
		f.running.Go(f.run)
	}
}

func (f *flusher) run() {
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

// take moves the first that are ready to into. If there are none, the goroutine is to end.
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
