package transport

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

const (
	replyBJoined   = `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"b","seat":0}]}`
	replyAJoined   = `{"id":1,"room":"42","version":2,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`
	eventAJoined   = `{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"a","seat":1}]}`
	replyARejoined = `{"id":1,"room":"42","version":3,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`
	eventUnchanged = `{"event":"changes","room":"42","version":3,"from":2,"changes":[]}`
	eventALeft     = `{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"a","seat":1,"reason":"left"}]}`
	eventARemoved  = `{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"a","seat":1,"reason":"node"}]}`
	eventABackIn   = `{"event":"snapshot","room":"42","version":4,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`
	eventAGone     = `{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"a","seat":1,"reason":"timeout"}]}`
	eventAAway     = `{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"away","user":"a","seat":1}]}`
	eventATimedOut = `{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"a","seat":1,"reason":"timeout"}]}`
	eventABack     = `{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"back","user":"a","seat":1}]}`
	replyABack     = `{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`
	join42         = `{"id":1,"action":"join","room":"42"}`
	leave42        = `{"id":2,"action":"leave","room":"42"}`
	users42        = `{"id":3,"action":"users","room":"42"}`
)

// twoNodes returns two servers on one Redis, with a in room 42 through the first, and b through
// the second.
func twoNodes(t *testing.T, rules room.Rules, opts Options) (first, second *testNode, a, b *testClient) {
	t.Helper()
	first, second = startPair(t, rules, opts)
	b = second.connect(t, "b")
	b.exchange(join42, withSettings(rules, replyBJoined))
	a = first.connect(t, "a")
	a.exchange(join42, withSettings(rules, replyAJoined))
	b.expect(eventAJoined)
	return first, second, a, b
}

// withSettings returns a reply with a list as a room with those rules gives it.
func withSettings(rules room.Rules, reply string) string {
	if n, limited := rules.Seating.(room.Capacity); limited {
		return strings.Replace(reply, `,"users":`, fmt.Sprintf(`,"settings":{"capacity":%d},"users":`, n), 1)
	}
	return reply
}

// A user who does not come back is away until the grace is over, and then leaves. Without a grace
// nobody is away.
func TestGrace_Ends(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{0: defaultGrace, 3 * time.Second: 3 * time.Second, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			_, _, a, b := twoNodes(t, room.Rules{}, Options{Grace: grace})
			start := time.Now()
			a.cut()
			left := eventAGone
			if want > 0 {
				b.expect(eventAAway)
				time.Sleep(want - 10*time.Millisecond)
				b.expectSilence()
				left = eventATimedOut
			}
			b.expectWithin(left, time.Second)
			took := time.Since(start)
			redistest.ErrorIf(t, took > want+10*time.Millisecond, "grace %v: left after %v", grace, took)
		})
	}
}

// A user who comes back in time, to any node, keeps the seat. The others see that the user is
// away, and back; they see neither a leave nor a join, also when the grace is over.
func TestGrace_ComingBack(t *testing.T) {
	for name, duplicate := range map[string]room.Duplicate{"replace": room.Replace, "reject": room.Reject} {
		for _, elsewhere := range []bool{false, true} {
			bubble(t, fmt.Sprint(name, ", elsewhere ", elsewhere), func(t *testing.T) {
				first, second, a, b := twoNodes(t, room.Rules{Duplicate: duplicate}, Options{})
				at := first
				if elsewhere {
					at = second
				}
				a.cut()
				b.expect(eventAAway)
				time.Sleep(9900 * time.Millisecond)
				a = at.connect(t, "a")
				a.exchange(join42, replyABack)
				b.expect(eventABack)
				expectQuiet(a, b)
				at.expectMembers(t, "42", "b a")
			})
		}
	}
}

// A session that has left, or was replaced, has no grace.
func TestGrace_LeaveOrTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{})
		newer := first.connect(t, "a")
		newer.exchange(join42, replyARejoined)
		b.expect(eventUnchanged)
		a.expectClose(protocol.CloseReplaced)
		newer.exchange(leave42, `{"id":2,"room":"42","version":4,"count":1}`)
		newer.cut()
		redistest.Equal(t, "sessions are in their grace:", len(first.disconnectTimers.running), 0)
	})
}

// The leave at the end of a grace is tried until it is done.
func TestGrace_LeaveTriedAgain(t *testing.T) {
	for _, passing := range []error{room.ErrUnavailable, room.ErrBusy, room.ErrUnknown, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			first, _, a, b := twoNodes(t, room.Rules{}, Options{})
			id := first.session(t, "a")
			attempts, leave := 0, room.Leave{User: "a", Session: id, Reason: room.ReasonTimeout}
			first.hook.setBefore(func(_ context.Context, action room.Action) error {
				if action == (room.Detach{User: "a", Session: id}) {
					return nil
				}
				redistest.ErrorIf(t, action != leave, "%+v", action)
				if attempts++; attempts < 10 {
					return fmt.Errorf("for now: %w", passing)
				}
				return nil
			})
			a.cut()
			b.expect(eventAAway)
			b.expectWithin(eventATimedOut, 10*session.LastPause+defaultGrace)
			redistest.ErrorIf(t, attempts != 10, "%d attempts", attempts)
		})
	}
}

// An attempt at a leave that takes too long is cancelled, and made again.
func TestGrace_LeaveHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{Grace: -1, LeaveTimeout: 3 * time.Second})
		var hung atomic.Bool
		var again atomic.Int64 // when
		start := time.Now()
		first.hook.setBefore(func(ctx context.Context, _ room.Action) error {
			if hung.CompareAndSwap(false, true) {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			again.Store(int64(time.Since(start)))
			return nil
		})
		a.cut()
		time.Sleep(time.Minute)
		if after := time.Duration(again.Load()); after < 3*time.Second || after > 3*time.Second+session.LastPause {
			t.Errorf("tried again after %v", after)
		}
		b.expect(eventAGone)
	})
}

// Shutdown waits for no grace and for no retry of a leave. The users whose grace runs keep
// their seats.
func TestGrace_Shutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		waiting := first.connect(t, "waits in another room")
		waiting.send(`{"id":1,"action":"join","room":"43"}`)
		waiting.expect(`{"id":1,"room":"43","version":1,"seat":0,"count":1,"users":[{"user":"waits in another room","seat":0}]}`)
		leave := room.Leave{User: "waits in another room", Session: first.session(t, "waits in another room"), Reason: room.ReasonTimeout}
		first.hook.setBefore(func(_ context.Context, action room.Action) error {
			if action == leave {
				return room.ErrUnavailable
			}
			return nil
		})
		waiting.cut()
		time.Sleep(5 * time.Second)
		a.cut()
		b.expect(eventAAway)
		time.Sleep(7 * time.Second)
		start := time.Now()
		redistest.OK(t, first.Shutdown(t.Context()))
		took := time.Since(start)
		redistest.ErrorIf(t, took > 0, "it took %v", took)
		expectQuiet(b)
		second.expectMembers(t, "42", "b a")
	})
}

// No user leaves whose grace ends, or whose connection breaks, while the node drains. Nor is the
// second one away.
func TestGrace_Drain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{Grace: time.Second, DrainSpread: time.Minute})
		first.connect(t, "stays") // two, so that the drain lasts in any order
		first.connect(t, "stays, too")
		goes := first.connect(t, "goes")
		goes.send(join42)
		goes.expect(`{"id":1,"room":"42","version":3,"seat":2,"count":3,"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"goes","seat":2}]}`)
		b.expect(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"join","user":"goes","seat":2}]}`)
		a.cut()
		b.expect(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"away","user":"a","seat":1}]}`)
		start, done := time.Now(), make(chan error, 1)
		go func() { done <- first.Shutdown(context.Background()) }()
		time.Sleep(time.Millisecond)
		goes.cut()
		redistest.OK(t, redistest.Receive(t, done, "Shutdown"))
		if took := time.Since(start); took < 10*time.Second {
			t.Fatalf("the drain was over in %v", took)
		}
		b.expectSilence()
		second.expectMembers(t, "42", "b a goes")
	})
}

// Under Reject a second session of a user is refused, until the connection of the first has
// ended.
func TestReject_SecondSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{Duplicate: room.Reject}, Options{})
		other := second.connect(t, "a")
		other.send(join42)
		other.expect(`{"id":1,"room":"42","error":{"code":"duplicate_user","message":"a is in room 42 with another session","retry":false}}`)
		a.expectSilence()
		done := make(chan error, 1)
		first.hook.setBefore(func(context.Context, room.Action) error { // before the detach a must not get the close frame
			a.expectSilence()
			return nil
		})
		go func() { done <- first.Shutdown(context.Background()) }()
		b.expect(eventAAway)
		a.expectClose(protocol.CloseRestart)
		redistest.OK(t, redistest.Receive(t, done, "Shutdown"))
		other.exchange(join42, `{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
	})
}

// A detach is tried until the grace is over.
func TestGrace_DetachTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{Duplicate: room.Reject}, Options{Grace: time.Minute})
		detach := room.Detach{User: "a", Session: first.session(t, "a")}
		var down atomic.Bool
		down.Store(true)
		first.hook.setBefore(func(_ context.Context, action room.Action) error {
			if down.Load() && action == detach {
				return room.ErrUnavailable
			}
			return nil
		})
		a.cut()
		time.Sleep(20 * time.Second)
		down.Store(false)
		time.Sleep(session.LastPause)
		other := second.connect(t, "a")
		other.exchange(join42, `{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
	})
}

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
				expectQuiet(b)
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
			expectQuiet(newer, b)
			redistest.ErrorIf(t, cut && tried != 1, "%d detaches", tried)
		})
	}
}

// In a room whose settings have a grace the node keeps no timer for who is away, whatever its own grace is: the user comes
// back after two days, or leaves when the room's grace is over. A reserved seat needs no timer either.
func TestGrace_OfTheRoom(t *testing.T) {
	for _, own := range []time.Duration{0, -1} {
		bubble(t, fmt.Sprint("own grace ", own), func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{Grace: own})
			const ms = 60_000
			_, err := first.rooms.Do(t.Context(), "42", room.Configure{Settings: room.Settings{Grace: room.NewGrace(ms)}})
			redistest.OK(t, err)
			settings := fmt.Sprintf(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"settings","settings":{"capacity":0,"grace":%d}}]}`, ms)
			a.expect(settings)
			b.expect(settings)
			a.cut()
			b.expect(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"away","user":"a","seat":1}]}`)
			synctest.Wait()
			redistest.Equal(t, "timers of the node", first.disconnectTimers.count(), 0)
			time.Sleep(50 * time.Second)
			b.expectSilence()
			a = second.connect(t, "a")
			a.send(join42)
			b.expect(`{"event":"changes","room":"42","version":5,"from":4,"changes":[{"type":"back","user":"a","seat":1}]}`)
			a.cut()
			b.expect(`{"event":"changes","room":"42","version":6,"from":5,"changes":[{"type":"away","user":"a","seat":1}]}`)
			time.Sleep(ms*time.Millisecond - 10*time.Millisecond)
			b.expectSilence()
			b.expectWithin(`{"event":"changes","room":"42","version":7,"from":6,"changes":[{"type":"leave","user":"a","seat":1,"reason":"timeout"}]}`, time.Second)
			_, err = first.Reserve(t.Context(), "42", "c")
			redistest.OK(t, err)
			redistest.Equal(t, "timers of the node", first.disconnectTimers.count(), 0)
		})
	}
}
