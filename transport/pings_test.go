package transport

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
)

// The pongs of pings that arrive together are written together, also with the smallest queue, and
// each ping has one.
func TestPings_Many(t *testing.T) {
	for _, queue := range []int{1, 0} {
		s := start(t, room.Rules{}, Options{MaxQueue: queue})
		c := s.connectRaw(t)
		const pings = 200
		c.write(strings.Repeat(ping("x"), pings), text(usersOf(1)), first(`{"id":2,`), ping("inside"))
		for range pings {
			if kind, content, err := c.frame(); err != nil || kind != websocket.PongMessage || content != "x" {
				t.Fatalf("instead of a pong: %d %q, %v", kind, content, err)
			}
		}
		for _, want := range []string{`{"id":1,"room":"1"`, "inside"} { // the second before its message has ended
			if _, content, err := c.frame(); err != nil || !strings.HasPrefix(content, want) {
				t.Fatalf("instead of %s: %q, %v", want, content, err)
			}
		}
	}
}

// A user who has sent more than half of the pings at once that a user may send gets no further
// connection for a while, and other users are not affected.
func TestPings_OfUser(t *testing.T) {
	s := start(t, room.Rules{}, Options{})
	first, second := s.connectRawAs(t, "a"), s.connectRawAs(t, "a")
	first.write(strings.Repeat(ping(""), session.NoopBurst-20), closing(1000, ""))
	got := first.readAll()
	redistest.ErrorIf(t, !strings.Contains(got, "1000"), "the first connection: %s", got)
	second.write(strings.Repeat(ping(""), session.NoopBurst-20), closing(1000, ""))
	if got := second.readAll(); !strings.Contains(got, "4009") {
		t.Errorf("the user's second connection: %s", got)
	}
	for user, status := range map[string]int{"a": http.StatusTooManyRequests, "b": http.StatusSwitchingProtocols} {
		_, answer, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/ws?user="+user, nil)
		redistest.ErrorIf(t, answer == nil || answer.StatusCode != status,
			"then %s connects: %+v, %v", user, answer, err)
	}
}
