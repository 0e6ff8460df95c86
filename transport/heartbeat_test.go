package transport

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/ws"
)

// The others see within 12 s, with the default options, that a client has vanished.
func TestHeartbeat_VanishedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := start(t, room.Rules{}, Options{})
		second := first.beside(t, room.Rules{}, Options{})
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
		a.expect(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	})
}

// No goroutine looks after connections when there are none.
func TestHeartbeat_EndsWithConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		for range 2 {
			a, b := s.connect(t, "a"), s.connect(t, "b")
			time.Sleep(time.Minute)
			a.expectSilence()
			a.cut()
			b.cut()
			time.Sleep(2 * ws.LingerTimeout)
			redistest.FatalIf(t, s.Connections() != 0, "a connection is left")
			s.sockets.Wait()
		}
	})
}
