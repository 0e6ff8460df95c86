package bench

import (
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

func TestSockets(t *testing.T) {
	for _, url := range []string{redisurl.Embedded, redistest.Start(t).URL()} {
		t.Run(url, func(t *testing.T) {
			b := testBench(t, url)
			for nodes := 1; nodes <= 2; nodes++ {
				load := workload{name: "sockets", kind: ofSockets, clients: 16, rooms: 4, nodes: nodes}
				for _, c := range of(load) {
					r := mustCell(t, b, load, c)
					if len(r.wrong()) > 0 || (r.Events > 0) != (c.name == roomdName) || !r.Latency.P99.IsKnown() {
						t.Errorf("%s, %d nodes: %v, %+v", c.name, nodes, r.wrong(), *r)
					}
				}
			}
			b.emptied(t)
		})
	}
}

// A room that is too small for its clients: refusals are errors. Who stays and does not listen any more is noticed.
func TestSockets_Refusals(t *testing.T) {
	b := testBench(t, redisurl.Embedded)
	node, err := openNode(t.Context(), serverConfig{db: b.redis.DB, Name: b.prefix + "node", Seats: 1})
	redistest.OK(t, err)
	defer node.Close()
	places := newPlaces(workload{clients: 2, rooms: 1, nodes: 1}, []string{b.prefix})
	c, err := connect(t.Context(), places, func(int) string { return node.URL() }, func(*crowd, int) error { return nil })
	redistest.OK(t, err)
	defer c.close()
	redistest.OK(t, c.act(0))
	c.listen(0)
	if err := c.act(1); err == nil || !strings.Contains(err.Error(), "room_full") || places[1].membership != memberUnsure {
		t.Errorf("%v", err)
	}
	redistest.OK(t, c.allHeard())
	_ = c.sockets[0].conn.Close()
	c.listening.Wait()
	if c.allHeard() == nil {
		t.Error("nobody noticed that a client stopped listening")
	}
}

// A socket distinguishes frames by their first bytes, also a frame that is longer than
// any before.
func TestSocket_Frames(t *testing.T) {
	server, err := openEcho(t.Context(), serverConfig{})
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
		s, err := dial(t.Context(), server.URL(), 0, &place{id: "42", user: "张三"})
		redistest.OK(t, err)
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
		_ = s.conn.Close()
	}
	if _, err := dial(t.Context(), "ws://127.0.0.1:1/ws", 0, &place{}); err == nil {
		t.Error("a server that is not there")
	}
}
