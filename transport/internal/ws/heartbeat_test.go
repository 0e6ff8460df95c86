package ws_test

import (
	"io"
	"net"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/outbox"
	"roomd/transport/internal/ws"
)

// queued takes the frames of an outbox, and handles none.
type queued struct {
	ws.Handler
	*outbox.Outbox
}

func (q queued) Take(batch [][]byte, _ int) [][]byte {
	for {
		frame, _ := q.Next()
		if frame == nil {
			return batch
		}
		batch = append(batch, frame)
	}
}

// A client has an interval for its answer to a ping from when its kernel has taken what was sent before the ping. What
// its kernel takes later gives it no other one.
func TestBeat_SlowReader(t *testing.T) {
	const interval, step, size = 8 * time.Hour, time.Hour, 128 << 10
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	redistest.OK(t, err)
	defer client.Close()
	raw, err := listener.Accept()
	redistest.OK(t, err)
	redistest.OK(t, client.(*net.TCPConn).SetReadBuffer(32<<10))
	redistest.OK(t, raw.(*net.TCPConn).SetWriteBuffer(2*size))
	var now time.Duration
	clock := func() time.Duration { return now }
	group := ws.NewGroup(ws.Options{PingInterval: interval, WriteTimeout: time.Hour, Clock: clock})
	out := outbox.New(2 * size)
	c := group.New(queued{nil, out}, out, 1024)
	c.Open(raw)
	defer group.Wait()
	defer c.Close()
	defer client.Close()
	write := func(frame []byte) {
		out.Ping(frame)
		redistest.Until(t, "the kernel has it", func() bool { return !out.IsWriting() })
	}
	beat := func(at time.Duration, open bool) {
		t.Helper()
		now = at
		next := c.Beat(now, step)
		redistest.Until(t, "the kernel has the ping", func() bool { return !out.IsWriting() })
		redistest.ErrorIf(t, next > 0 != open, "after %v the next look is in %v", at, next)
	}
	read := func(n int64) {
		_, err := io.CopyN(io.Discard, client, n)
		redistest.OK(t, err)
	}
	write(make([]byte, size))
	beat(interval, true) // it is pinged
	read(size / 2)
	beat(2*interval, true)
	read(size/2 + 2)
	redistest.Until(t, "all has arrived", func() bool { return c.Unsent() == 0 })
	beat(3*interval-2*step, true)
	write(make([]byte, 1024))
	read(1024)
	redistest.Until(t, "that has arrived", func() bool { return c.Unsent() == 0 })
	beat(4*interval-5*step, true)
	beat(4*interval-4*step, false)
}
