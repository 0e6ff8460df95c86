package transport

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"roomd/room"
)

// batchSize is how many bytes are written at once, if that many wait. The last frame may go
// beyond it.
const batchSize = 16 << 10

// writer writes a connection's outbox to its socket. No goroutine waits for something to
// write: the reader writes the reply to its request (flush), and the outbox starts a writer
// for what comes by itself (start). The outbox makes sure that there is one at a time.
type writer struct {
	conn    *conn
	running sync.WaitGroup

	// Used only by the current writer; the outbox decides who that is.
	frames   [][]byte
	deadline time.Time // that is set on the socket
}

// flush writes what is queued, unless there is a writer. It leaves what comes meanwhile to
// another goroutine, since the reader has to go back to its client.
func (w *writer) flush() {
	if w.conn.out.claim() && w.send() {
		w.start()
	}
}

// start writes in a goroutine until nothing is queued.
func (w *writer) start() {
	w.running.Go(func() {
		for w.send() {
		}
	})
}

// wait returns when the goroutines that start has started have ended.
func (w *writer) wait() { w.running.Wait() }

// send writes some of what is queued, and reports whether to go on. If the write fails, the
// connection ends.
func (w *writer) send() (more bool) {
	// Moving the deadline costs as much as encoding a frame, so not every write does it.
	now, timeout := time.Now(), w.conn.server.opts.WriteTimeout
	if w.deadline.Sub(now) < timeout {
		w.deadline = now.Add(timeout + timeout/8)
		w.conn.extendWriteDeadline(w.deadline)
	}
	if err := w.writeSome(); err != nil {
		w.conn.end(0, fmt.Sprintf("writing: %v", err))
		w.conn.out.discard()
	}
	return w.conn.out.keepWriting()
}

// writeSome writes about batchSize of what is queued.
func (w *writer) writeSome() error {
	out, frames := w.conn.out, w.frames[:0]
	for size := 0; size < batchSize; {
		frame, events := out.next()
		if frame == nil && events == nil {
			break
		}
		first := len(frames)
		if frame != nil {
			frames = append(frames, frame)
		}
		single := len(frames)
		if len(events) > 0 {
			frames = appendEvents(frames, w.conn.session.user, events)
		}
		w.conn.server.opts.Trace.merged(len(events) - (len(frames) - single))
		for _, f := range frames[first:] {
			size += len(f)
		}
	}
	w.frames = frames
	defer out.written()
	defer clear(frames)
	return w.writeFrames(frames)
}

// writeFrames writes short frames with one system call, and a long one without copying it.
func (w *writer) writeFrames(frames [][]byte) error {
	raw := w.conn.raw
	if len(frames) == 1 {
		_, err := raw.Write(frames[0])
		return err
	}
	short := getBuffer()
	defer putBuffer(short)
	for _, f := range frames {
		if len(f) < batchSize {
			short.Write(f)
			continue
		}
		if _, err := short.WriteTo(raw); err != nil {
			return err
		}
		if _, err := raw.Write(f); err != nil {
			return err
		}
	}
	_, err := short.WriteTo(raw)
	return err
}

// appendEvents appends the frames of one room's events. Changes that follow each other are
// merged into one frame.
func appendEvents(frames [][]byte, user string, events []*room.Event) [][]byte {
	for len(events) > 0 {
		n := 1
		for n < len(events) && follows(events[n], events[n-1]) {
			n++
		}
		if n == 1 {
			frames = append(frames, eventFrameOf(events[0]).frameFor(user))
		} else {
			frames = append(frames, changesFrame(user, events[:n]...))
		}
		events = events[n:]
	}
	return frames
}

func follows(e, before *room.Event) bool {
	return e.Snapshot == nil && before.Snapshot == nil && e.Epoch == before.Epoch && e.From == before.Version
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
