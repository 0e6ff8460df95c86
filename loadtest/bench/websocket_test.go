package bench

import (
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/loadtest/bench/echo"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

func TestWebSocket(t *testing.T) {
	for kind, url := range servers {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t, url(t))
			for nodes := 1; nodes <= 2; nodes++ {
				r, err := b.measureWebSocket(t.Context(), workload{name: webSocketName, clients: 16, rooms: 4, nodes: nodes})
				redistest.OK(t, err)
				if wrong := r.remarks(); len(wrong) > 0 {
					t.Error(wrong)
				}
				if r.Connections != 16 || r.Acting != 8 || r.Rooms != 4 || r.Events == 0 || r.EchoPerSec <= 0 || r.Ratio <= 0 || !r.EchoLatency.P99.IsKnown() {
					t.Errorf("%d nodes: %+v", nodes, *r)
				}
			}
			if n := b.rdb.DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("%d keys are left", n)
			}
		})
	}
}

// A room that is too small for its clients: refusals are errors.
func TestWebSocket_Refusals(t *testing.T) {
	b := newBench(t, redisurl.Embedded)
	h := &tables{load: workload{clients: 2, rooms: 2, nodes: 1}, meter: b.meter}
	h.rooms = []string{"one-and-only", "one-and-only"}
	defer h.close()
	err := h.open(t.Context(), b, "node")
	if err != nil {
		t.Fatal(err) // one stays, in the room's only seat
	}
	err = h.players[0].act(t.Context())
	if err == nil || !strings.Contains(err.Error(), "room_full") || h.players[0].membership != memberUnsure {
		t.Errorf("%v", err)
	}
	if err := h.callers[0].act(t.Context()); err != nil {
		t.Errorf("the echo server: %v", err)
	}
	if err := h.allHeard(); err != nil {
		t.Error(err)
	}
	h.players[1].close()
	h.listening.Wait()
	if h.allHeard() == nil {
		t.Error("nobody noticed that a player stopped listening")
	}
}

// A socket distinguishes frames by their first bytes, also a frame that is longer than
// any before.
func TestSocket_Frames(t *testing.T) {
	server, err := echo.Start()
	redistest.OK(t, err)
	defer server.Close()
	for _, test := range []struct{ said, want string }{
		{`{"event":"changes","room":"42"}` + "\n" + `{"id":1,"room":"42"}`, ""},
		{`{"event":"snapshot","users":"` + strings.Repeat("张", 5000) + `"}` + "\n" + `{"id":1,"room":"42"}`, ""},
		{`{"id":1,"error":{"code":"room_full"}}`, "refused"},
		{`{"id":11,"room":"42"}`, errNoReply.Error()},
		{`{"error":{"code":"bad_request"}}`, errNoReply.Error()},
		{``, errNoReply.Error()},
	} {
		s, err := newSocket(0, "42", "张三")
		redistest.OK(t, err)
		redistest.OK(t, s.dial(t.Context(), server.URL()))
		frames := strings.Split(test.said, "\n")
		for _, frame := range frames {
			redistest.OK(t, s.conn.WriteMessage(websocket.TextMessage, []byte(frame)))
		}
		err = s.act(t.Context())
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40s: %v, want %q", test.said, err, test.want)
		}
		if err == nil && int(s.events.Load()) != len(frames)-1 {
			t.Errorf("%.40s: %d events", test.said, s.events.Load())
		}
		s.close()
	}
	s, err := newSocket(0, "42", "张三")
	redistest.OK(t, err)
	if err := s.dial(t.Context(), "ws://127.0.0.1:1/ws"); err == nil {
		t.Error("a server that is not there")
	}
	s.close()
}
