package transport

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

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
