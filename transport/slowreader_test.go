package transport

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
)

// slowNet is a network over which a read of at most 16 KiB takes a while.
type slowNet struct {
	net.Conn
	pause time.Duration
}

func (s slowNet) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.Conn.Read(p[:min(len(p), 16<<10)])
}

// connectSlow connects over a slow network, with a client whose own kernel keeps little.
func (s *testNode) connectSlow(t *testing.T, pause time.Duration) (*testClient, *conn) {
	t.Helper()
	dialer := websocket.Dialer{ReadBufferSize: 16 << 10, HandshakeTimeout: testTimeout, NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(32 << 10)
		}
		return slowNet{conn, pause}, err
	}}
	ws, _, err := dialer.Dial("ws://"+s.addr+"/ws?user=a", nil)
	redistest.OK(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	p := &testClient{t: t, ws: ws}
	p.ping() // the server has opened it
	return p, s.onlyConn(t)
}

// A client over a slow network answers a ping when it has read what comes before it. It is not taken
// for one that has vanished: neither because it was silent while the server was writing, nor while
// the server's kernel still keeps what it reads.
func TestSlowReader_NotVanished(t *testing.T) {
	for name, tt := range map[string]struct {
		pause  time.Duration
		frames int
	}{
		"a long burst":        {4 * time.Millisecond, 256},
		"what the kernel has": {40 * time.Millisecond, 64},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, sizedRooms{}, Options{PingInterval: 400 * time.Millisecond})
			a, c := s.connectSlow(t, tt.pause)
			pushFrames(c, tt.frames)
			_ = a.ws.SetReadDeadline(time.Now().Add(3 * testTimeout))
			for i := range tt.frames {
				if _, _, err := a.ws.ReadMessage(); err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
			}
			a.ping()
		})
	}
}

// pushFrames queues frames of 16 KiB, as events are queued.
func pushFrames(c *conn, n int) {
	frame := make([]byte, 4, 4+16<<10)
	frame[0], frame[1], frame[2] = 0x81, 126, 16<<10>>8
	frame = append(frame, bytes.Repeat([]byte{'x'}, 16<<10)...)
	for range n {
		c.out.Ping(frame)
	}
}

// One that stops reading is cut off, whatever the kernel keeps for it.
func TestSlowReader_CutOff(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{PingInterval: 100 * time.Millisecond})
	_, c := s.connectSlow(t, 0)
	pushFrames(c, 16)
	select {
	case <-c.removed:
	case <-time.After(testTimeout):
		t.Error("the connection is still there")
	}
}
