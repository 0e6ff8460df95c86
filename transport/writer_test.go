package transport

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// countingConn counts writes, which would be system calls.
type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// What was queued during a write is written together.
func TestWriter_FramesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		var writes atomic.Int64
		s.pipes.wrap = func(c net.Conn) net.Conn { return countingConn{c, &writes} }
		a := s.connectIdle(t, "a")
		a.exchange(watch42, `{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		a.exchange(`{"id":4,"action":"watch","room":"43"}`, `{"id":4,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
		writes.Store(0)
		s.joins(t, "b", "42") // keeps the writer busy
		for _, user := range []string{"c", "d"} {
			s.joins(t, user, "42")
			s.joins(t, user, "43")
		}
		a.send(`{"id":5,"action":"users","room":"44"}`)
		synctest.Wait()
		start := time.Now()
		a.expect(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"b","seat":0}]}`)
		a.expect(`{"event":"changes","room":"42","version":3,"from":1,"changes":[{"type":"join","user":"c","seat":1},{"type":"join","user":"d","seat":2}]}`)
		a.expect(`{"event":"changes","room":"43","version":2,"from":0,"changes":[{"type":"join","user":"c","seat":0},{"type":"join","user":"d","seat":1}]}`)
		a.expect(`{"id":5,"room":"44","epoch":"","version":0,"count":0,"users":[]}`)
		n := writes.Load()
		redistest.ErrorIf(t, n != 2 || time.Since(start) > 0, "%d writes, in %v", n, time.Since(start))
	})
}

// Events that the client does not read do not delay its requests.
func TestWriter_EventsDoNotDelayRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		a := s.connectIdle(t, "a")
		a.exchange(watch42, `{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		a.send(`{"id":5,"action":"users","room":"43"}`)
		synctest.Wait() // the reply waits to be read
		s.joins(t, "b", "42")
		a.expect(`{"id":5,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
		synctest.Wait() // the event waits, too
		_ = a.ws.SetWriteDeadline(time.Now().Add(time.Second))
		a.send(`{"id":6,"action":"users","room":"43"}`)
		a.expect(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"b","seat":0}]}`)
		a.expect(`{"id":6,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
	})
}

// A client that does not read is cut off after WriteTimeout, or up to an eighth later.
func TestWriter_ClientThatDoesNotRead(t *testing.T) {
	for _, quiet := range []time.Duration{0, time.Second, 2 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, room.Rules{}, Options{Grace: -1, WriteTimeout: 8 * time.Second, PingInterval: time.Hour})
			a := s.connectIdle(t, "a")
			a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
			time.Sleep(quiet)
			s.joins(t, "b", "42")
			start := time.Now()
			for strings.HasPrefix(s.members(t, "42"), "a") {
				redistest.FatalIf(t, time.Since(start) > time.Minute, "it is still in the room")
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(start); took < 8*time.Second || took > 9*time.Second+200*time.Millisecond {
				t.Errorf("cut off after %v", took)
			}
		})
	}
}

// What a socket does not take at once is written later: a client that begins to read when its socket is full gets
// every frame once and in order, also those that were written together, or in parts.
func TestFlusher_FullSocket(t *testing.T) {
	for range 2 {
		s := serve(t, sizedRooms{}, Options{PingInterval: time.Hour})
		p, c := s.connectSlow(t, 0)
		const most = 3000 // more than the kernels keep
		for n := range most {
			size := 9000 // of which a socket takes a part
			if n%4 > 0 {
				size = 1000
			}
			c.out.Ping(fmt.Appendf([]byte{0x81, 126, byte(size >> 8), byte(size)}, `{"id":%06d,"of":"%0*d"}`, n, size-21, most))
		}
		_ = p.ws.SetReadDeadline(time.Now().Add(testTimeout))
		for n := range most {
			_, frame, err := p.ws.ReadMessage()
			if want := fmt.Sprintf(`{"id":%06d,`, n); err != nil || !strings.HasPrefix(string(frame), want) {
				t.Fatalf("frame %d: %.40s, %v", n, frame, err)
			}
		}
	}
}

// 40 clients ask for a long list, or send pings, again and again, and read nothing. For each of
// them the server keeps no more than MaxQueue and one frame.
func TestQueue_ClientsThatDoNotRead(t *testing.T) {
	const members = 2000
	snapshot, _ := sizedRooms{}.Read(t.Context(), fmt.Sprint(members))
	for name, tt := range map[string]struct {
		size int // of a frame
		ask  func(*testClient) error
	}{
		"lists": {cap(frames.Reply(&protocol.Reply{ID: new(int64), Room: "2000", State: frames.State(snapshot, room.Viewer{}, func() int64 { return 0 })})), func(p *testClient) error {
			return p.ws.WriteMessage(1, fmt.Appendf(nil, `{"id":1,"action":"users","room":"%d"}`, members))
		}},
		"pings": {127, func(p *testClient) error {
			return p.ws.WriteControl(9, make([]byte, 125), time.Now().Add(time.Hour))
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			const clients, most = 40, 16 << 10
			s := serve(t, sizedRooms{}, Options{MaxQueue: most, PingInterval: time.Second})
			for i := range clients {
				p := s.connectIdle(t, fmt.Sprint("u", i))
				go func() {
					time.Sleep(time.Second + time.Millisecond) // the first ping keeps a writer waiting
					for n := 0; n < 200 && tt.ask(p) == nil; n++ {
					}
				}()
			}
			time.Sleep(time.Second + time.Second/2)
			s.conns.mu.Lock()
			total, conns := 0, len(s.conns.open)
			for _, c := range s.conns.open {
				total += c.out.Kept()
			}
			s.conns.mu.Unlock()
			redistest.ErrorIf(t, conns != clients || total < clients*most || total > clients*(most+tt.size+10*64),
				"%s: %d bytes are kept for %d clients, a frame has %d", name, total, conns, tt.size)
		})
	}
}

// A client that reads gets a list of any length.
func TestQueue_LongList(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{MaxQueue: 1})
	a := s.connect(t, "a")
	for range 3 {
		for i := range 3 {
			a.send(fmt.Sprintf(`{"id":%d,"action":"users","room":"5000"}`, i))
		}
		_ = a.ws.SetReadDeadline(time.Now().Add(testTimeout))
		for i := range 3 {
			_, frame, err := a.ws.ReadMessage()
			redistest.OK(t, err)
			reply, err := protocol.DecodeFrame(frame)
			if r := reply.(*protocol.Reply); err != nil || len(r.Users) != 5000 || *r.ID != int64(i) {
				t.Errorf("reply %d: %.60s, %v", i, frame, err)
			}
		}
	}
}
