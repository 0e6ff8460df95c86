package transport

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
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

// A client over a slow network answers a ping when it has read what comes before it. It is not taken for one that has
// vanished: neither because it was silent while the server was writing, nor while the server's kernel still keeps what
// it reads. For what its own kernel keeps see TestBeat_SlowReader.
func TestSlowReader_NotVanished(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{PingInterval: 400 * time.Millisecond})
	a, c := s.connectSlow(t, 4*time.Millisecond)
	const frames = 256
	pushFrames(c, frames)
	_ = a.ws.SetReadDeadline(time.Now().Add(3 * testTimeout))
	for i := range frames {
		if _, _, err := a.ws.ReadMessage(); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
	}
	a.ping()
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

// lastRead returns the last frame that a client gets, when nothing comes any more.
func (v *testClient) lastRead() (frames int, last string) {
	v.t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	for ; len(v.frames) > 0; frames++ {
		last = <-v.frames
	}
	select {
	case err := <-v.closed:
		v.t.Errorf("the connection has ended: %v", err)
	default:
	}
	return frames, last
}

// A room of 6,000 is closed: on another node, watchers and members hear of it, and stay.
func TestClose_LargeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := startPair(t, room.Rules{}, Options{})
		var reads atomic.Int64
		first.hook.reading = func(context.Context, string) error { reads.Add(1); return nil }
		member := first.connect(t, "member")
		member.send(join42)
		var watchers []*testClient
		for i := range 10 {
			v := first.connect(t, fmt.Sprint("w", i))
			v.send(watch42)
			watchers = append(watchers, v)
		}
		const members = 6_000 // whose changes are more than a queue may hold
		var users sync.WaitGroup
		for from := range members / 50 {
			users.Go(func() {
				var party []string
				for i := range 50 {
					party = append(party, fmt.Sprintf("player-%05d", 50*from+i))
				}
				_, err := second.rooms.Do(t.Context(), "42", room.Reserve{Session: "party", Users: party})
				redistest.ErrorIf(t, err != nil, "%v", err)
			})
		}
		users.Wait()
		synctest.Wait()
		reads.Store(0)
		if now, err := second.rooms.Read(t.Context(), "42"); err != nil || now.Count() != members+1 {
			t.Fatal(now.Count(), err)
		}
		redistest.OK(t, redistest.Err(second.rooms.Do(t.Context(), "42", room.Close{})))
		_, last := member.lastRead()
		redistest.ErrorIf(t, last != `{"event":"lost","room":"42","reason":"closed"}`, "the member got %.200s", last)
		for _, v := range watchers {
			if _, last := v.lastRead(); !strings.HasPrefix(last, `{"event":"snapshot","room":"42"`) || !strings.HasSuffix(last, `"users":[]}`) {
				t.Errorf("a watcher got %.200s", last)
			}
		}
		n := reads.Load()
		redistest.ErrorIf(t, n != 1, "the room was read %d times for %d watchers", n, len(watchers))
	})
}

// slowConn lets a client read so slowly that events pile up, but always something.
type slowConn struct {
	net.Conn
	mu  sync.Mutex
	rnd *rand.Rand
}

func (c *slowConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	pause := time.Duration(c.rnd.IntN(200)) * time.Millisecond
	c.mu.Unlock()
	time.Sleep(pause)
	return c.Conn.Read(p[:min(len(p), 4096)])
}

// A client that stops reading is closed with 4008 after the write time-out: it reads that, and what
// was being written, if it goes on soon.
func TestSlowReader_StopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counters
		s := start(t, room.Rules{}, Options{WriteTimeout: 2 * time.Second, PingInterval: time.Hour, MaxQueue: 2000, Trace: n.trace()})
		a := s.connectIdle(t, "a")
		a.exchange(watch42, `{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		for i := range 50 {
			s.joins(t, fmt.Sprint("b", i), "42")
		}
		redistest.FatalIf(t, s.Connections() != 1 || n.tooSlow.Load() != 0, "it is closed at once")
		time.Sleep(3 * time.Second)
		redistest.ErrorIf(t, n.tooSlow.Load() != 1, "it is not closed")
		a.expect(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"b0","seat":0}]}`)
		a.expectClose(protocol.CloseTooSlow)
	})
}

// A long frame is written as long as the client reads some of it within the write time-out.
func TestSlowReader_LongFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{WriteTimeout: time.Second, PingInterval: time.Hour})
		a := s.connectIdle(t, "a")
		conn := a.ws.NetConn()
		a.send(`{"id":1,"action":"users","room":"20000"}`)
		var frame bytes.Buffer
		buffer := make([]byte, 16<<10)
		for start := time.Now(); !bytes.HasSuffix(frame.Bytes(), []byte("]}")); {
			time.Sleep(900 * time.Millisecond)
			n, err := conn.Read(buffer)
			redistest.FatalIf(t, err != nil, "after %d bytes, and %v: %v", frame.Len(), time.Since(start), err)
			frame.Write(buffer[:n])
		}
		redistest.ErrorIf(t, frame.Len() < 500_000, "%d bytes", frame.Len())
	})
}
