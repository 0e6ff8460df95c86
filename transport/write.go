package transport

import (
	"time"

	"roomd/room"
)

// enough is how many bytes are written at once, if so many wait. The last frame of
// them may go beyond.
const enough = 16 << 10

// No goroutine of a connection waits for something to write: the reader writes what
// its request has queued (flush), and for what comes by itself the outbox starts a
// writer (startWriter). It sees to it that there is one at a time.

// flush writes what is queued, unless somebody is at it already. What comes meanwhile
// is left to a writer, since the reader has to go back to its client.
func (c *conn) flush() {
	if c.out.claim() && c.send() {
		c.startWriter()
	}
}

func (c *conn) startWriter() { c.writers.Go(c.write) }

// write writes until nothing is left.
func (c *conn) write() {
	for c.send() {
	}
}

// send writes some of what is queued, and reports whether to go on. If the client
// cannot be written to, the connection ends.
func (c *conn) send() (more bool) {
	// To move the deadline costs as much as to put a frame together.
	now, timeout := time.Now(), c.server.opts.WriteTimeout
	if c.writeBy.Sub(now) < timeout {
		c.writeBy = now.Add(timeout + timeout/8)
		c.mu.Lock()
		if !c.closing { // end has set one
			_ = c.raw.SetWriteDeadline(c.writeBy)
		}
		c.mu.Unlock()
	}
	if err := c.writeSome(); err != nil {
		c.end(0, "") // wakes the reader
		c.out.drop()
	}
	return c.out.more()
}

// writeSome writes what is queued, up to enough, with one system call.
func (c *conn) writeSome() error {
	frames := c.frames[:0]
	for size := 0; size < enough; {
		frame, events := c.out.next()
		if frame == nil && events == nil {
			break
		}
		first := len(frames)
		if frame != nil {
			frames = append(frames, frame)
		}
		frames = appendEvents(frames, events)
		for _, f := range frames[first:] {
			size += len(f)
		}
	}
	c.frames = frames
	defer c.out.written()
	defer clear(frames)
	return c.writeFrames(frames)
}

// writeFrames writes short frames together, and a long one without copying it.
func (c *conn) writeFrames(frames [][]byte) error {
	if len(frames) == 1 {
		_, err := c.raw.Write(frames[0])
		return err
	}
	short := getBuffer()
	defer putBuffer(short)
	for _, f := range frames {
		if len(f) < enough {
			short.Write(f)
			continue
		}
		if _, err := short.WriteTo(c.raw); err != nil {
			return err
		}
		if _, err := c.raw.Write(f); err != nil {
			return err
		}
	}
	_, err := short.WriteTo(c.raw)
	return err
}

// appendEvents appends the frames that tell the events of one room, those that
// follow each other in one.
func appendEvents(frames [][]byte, events []*room.Event) [][]byte {
	for len(events) > 0 {
		n := 1
		for n < len(events) && follows(events[n], events[n-1]) {
			n++
		}
		if n == 1 {
			frames = append(frames, sharedBy(events[0]).frame())
		} else {
			frames = append(frames, changesFrame(events[:n]...))
		}
		events = events[n:]
	}
	return frames
}

func follows(e, before *room.Event) bool {
	return e.Snapshot == nil && before.Snapshot == nil && e.Epoch == before.Epoch && e.From == before.Version
}
