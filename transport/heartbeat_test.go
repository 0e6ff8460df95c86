package transport

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
	"roomd/transport/internal/ws"
)

// The others see within 12 s, with the default options, that a client has vanished.
func TestHeartbeat_VanishedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := startPair(t, room.Rules{}, Options{})
		for range 20 {
			a, b := first.connectIdle(t, "a"), second.connect(t, "b")
			b.send(watch42)
			b.next("a list", time.Second)
			time.Sleep(1700 * time.Millisecond) // at any point of an interval
			a.ws.SetPingHandler(func(string) error { return nil })
			a.send(join42)
			go a.readAll()
			start := time.Now()
			b.expectChange(`{"type":"away","user":"a"`, 12*time.Second)
			took := time.Since(start)
			redistest.ErrorIf(t, took < 10*time.Second, "away after %v", took)
			_ = a.ws.Close()
			_ = b.ws.Close()
			time.Sleep(2 * defaultGrace)
		}
	})
}

// A client that talks is not pinged, whatever it says; one that is silent is, once an interval.
func TestHeartbeat_TalkingClient(t *testing.T) {
	for name, tt := range map[string]struct {
		say   string
		pings bool
	}{
		"requests":   {text(usersOf(1)), false},
		"pongs":      {pong("?"), false},
		"pings":      {ping("?"), false}, // and it answers none of the server's
		"silent now": {"", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, sizedRooms{}, Options{})
			c := s.connectRawAs(t, "a")
			var talking sync.WaitGroup
			defer talking.Wait()
			talking.Go(func() {
				for range 20 {
					time.Sleep(4 * time.Second)
					if tt.say != "" {
						c.write(tt.say)
					}
				}
				if tt.say != "" {
					c.write(closing(1000, ""))
				}
			})
			got := c.readAll()
			redistest.ErrorIf(t, strings.Contains(got, `9 ""`) != tt.pings, "%s: got %s", name, got)
		})
	}
}

// The time that the server takes for a request is no silence of the client.
func TestHeartbeat_WaitingClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		a := s.connectIdle(t, "a")
		s.hook.setBefore(func(context.Context, room.Action) error { time.Sleep(time.Minute); return nil })
		a.send(join42)
		time.Sleep(61 * time.Second)
		s.hook.setBefore(nil) // the server stops faster than that
		a.expect(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	})
}

// No goroutine looks after connections when there are none.
func TestHeartbeat_EndsWithConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		for range 2 {
			a, b := s.connect(t, "a"), s.connect(t, "b")
			expectQuiet(a)
			a.cut()
			b.cut()
			time.Sleep(2 * ws.LingerTimeout)
			redistest.FatalIf(t, s.Connections() != 0, "a connection is left")
			s.sockets.Wait()
		}
	})
}

// A panic ends the connection that caused it, and no other.
func TestConnection_Panic(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.send(`{"id":1,"action":"users","room":"panic"}`)
	_, frame, err := a.ws.ReadMessage()
	redistest.ErrorIf(t, err == nil, "got %s", frame)
	b.exchange(`{"id":1,"action":"users","room":"1"}`, `{"id":1,"room":"1","version":1,"count":1,"users":[{"user":"player-0","seat":0}]}`)
}

// A silent client stays connected as long as it answers pings, also if these are further apart
// than a write may take.
func TestHeartbeat_QuietClientStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{WriteTimeout: time.Second, PingInterval: 30 * time.Second})
		v := s.connect(t, "a")
		time.Sleep(10 * time.Minute)
		v.expectSilence()
	})
}

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

// Clients hear that their node cannot reach Redis, and that it can again; also those that connect
// meanwhile.
func TestHealth_Degraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		early := s.connect(t, "early")
		early.send(watch42)
		time.Sleep(time.Minute)
		redistest.ErrorIf(t, early.degraded.Load(), "the node is degraded from the beginning")
		s.redisNet.stop()
		time.Sleep(2 * (healthInterval + healthTimeout))
		late := s.connect(t, "late")
		synctest.Wait()
		redistest.ErrorIf(t, !early.degraded.Load() || !late.degraded.Load(),
			"early knows %v, late %v", early.degraded.Load(), late.degraded.Load())
		s.redisNet.resume()
		time.Sleep(10 * time.Second)
		redistest.ErrorIf(t, early.degraded.Load() || late.degraded.Load(), "nobody says that Redis is back")
		early.next("a list", time.Second)
		late.expectSilence()
	})
}

// One look that fails says nothing.
func TestHealth_Hiccup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		a := s.connectIdle(t, "a")
		time.Sleep(healthInterval / 2)
		s.hook.unreachable.Store(true)
		time.Sleep(healthInterval)
		s.hook.unreachable.Store(false)
		time.Sleep(2 * healthInterval)
		a.exchange(users42, `{"id":3,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
	})
}
