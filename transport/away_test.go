package transport

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// A client that closes with 1000 leaves at once, whatever the grace is, and also from a node that
// drains.
func TestAway_ClosedOnPurpose(t *testing.T) {
	for _, grace := range []time.Duration{-1, 0, time.Hour} {
		for _, drains := range []bool{false, true} {
			bubble(t, fmt.Sprintf("grace %v, drains %v", grace, drains), func(t *testing.T) {
				first, second, a, b := twoNodes(t, room.Rules{}, Options{Grace: grace})
				if drains {
					first.conns.drain()
					first.disconnectTimers.stop() // what Shutdown begins with, before it closes anybody
				}
				a.sendClose(websocket.CloseNormalClosure)
				b.expect(eventALeft)
				second.expectMembers(t, "42", "b")
				time.Sleep(time.Minute)
				b.expectSilence()
			})
		}
	}
}

// However else a connection ends, its user is away, and leaves when the grace is over.
func TestAway_EveryOtherEnd(t *testing.T) {
	closing := func(code int) func(*testing.T, *testNode, *testClient) {
		return func(_ *testing.T, _ *testNode, a *testClient) { a.sendClose(code) }
	}
	for name, end := range map[string]func(t *testing.T, s *testNode, a *testClient){
		"1001":              closing(websocket.CloseGoingAway),
		"a code of its own": closing(4100),
		"no code":           closing(websocket.CloseNoStatusReceived),
		"a cut":             func(_ *testing.T, _ *testNode, a *testClient) { _ = a.ws.NetConn().Close() },
		"a frame that is not text": func(_ *testing.T, _ *testNode, a *testClient) {
			_ = a.ws.WriteMessage(websocket.BinaryMessage, []byte("x"))
		},
		"silence": func(*testing.T, *testNode, *testClient) { time.Sleep(3 * time.Minute) }, // a answers no ping
		"it does not read": func(t *testing.T, s *testNode, _ *testClient) {
			for i := range 40 {
				s.joins(t, fmt.Sprint("user", i), "42")
			}
		},
	} {
		bubble(t, name, func(t *testing.T) {
			first := start(t, room.Rules{}, Options{MaxQueue: 1000})
			second := first.beside(t, room.Rules{}, Options{})
			a, b := first.connectIdle(t, "a"), second.connect(t, "b")
			a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
			b.send(watch42)
			synctest.Wait()
			end(t, second, a)
			b.expectChange(`{"type":"away","user":"a","seat":0}`, time.Minute)
			b.expectChange(`{"type":"leave","user":"a","seat":0,"reason":"timeout"}`, defaultGrace+time.Second)
		})
	}
	bubble(t, "the end of the token", func(t *testing.T) {
		s := startWithKey(t, Options{})
		a, b := s.dialWith(t, tokenOf(t, "a", time.Minute)).reading(), s.dialWith(t, tokenOf(t, "b", time.Hour)).reading()
		a.send(join42)
		synctest.Wait()
		b.send(watch42)
		b.expectChange(`{"type":"away","user":"a","seat":0}`, 2*time.Minute)
		a.expectClose(protocol.CloseUnauthorized)
		b.expectChange(`{"type":"leave","user":"a","seat":0,"reason":"timeout"}`, defaultGrace+time.Second)
	})
}

// expectChange reads frames until one has that change. None may say that a has left before.
func (v *testClient) expectChange(want string, patience time.Duration) {
	v.t.Helper()
	for got := ""; !strings.Contains(got, want); {
		if got = v.next(want, patience); strings.Contains(got, `"leave","user":"a"`) && !strings.Contains(got, want) {
			v.t.Fatalf("got\n  %s\nwant\n  %s", got, want)
		}
	}
}

// A second connection of a user takes over without a loss, so nobody was away. Nor does anybody
// see the end of the first, even if that comes late.
func TestAway_TakeOver(t *testing.T) {
	for name, cut := range map[string]bool{"of a connection that lives": false, "before its loss is written": true} {
		bubble(t, name, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			detach, taken := room.Detach{User: "a", Session: first.session(t, "a")}, make(chan struct{})
			release := sync.OnceFunc(func() { close(taken) })
			defer release()
			tried := 0
			first.hook.setBefore(func(_ context.Context, action room.Action) error {
				if action == detach {
					tried++
					<-taken
				}
				return nil
			})
			if cut {
				a.cut()
			}
			newer := second.connect(t, "a")
			newer.exchange(join42, replyARejoined)
			b.expect(eventUnchanged)
			synctest.Wait()
			release()
			time.Sleep(time.Minute)
			newer.expectSilence()
			b.expectSilence()
			redistest.ErrorIf(t, cut && tried != 1, "%d detaches", tried)
		})
	}
}
