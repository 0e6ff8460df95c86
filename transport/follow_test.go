package transport

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// gateActions keeps actions of that kind in that room back until open is called.
func (r *hookedRooms) gate(kind room.Kind, seen func()) (open func()) {
	gate := make(chan struct{})
	r.setBefore(func(ctx context.Context, a room.Action) error {
		if room.KindOf(a) != kind {
			return nil
		}
		seen()
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return func() { close(gate) }
}

// moveTo moves users through a node.
func (s *testNode) moveTo(t *testing.T, from, to string, users ...string) {
	t.Helper()
	_, _, err := s.Move(t.Context(), from, to, users...)
	redistest.OK(t, err)
	synctest.Wait()
}

// An acknowledged leave of the room to which the user is being moved stays, in whichever order the leave and
// the move were written, although the session hears of the move later.
func TestMove_LeaveOfTarget(t *testing.T) {
	for _, leaveFirst := range []bool{false, true} {
		bubble(t, fmt.Sprint("leave first: ", leaveFirst), func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			a.askAbout("T", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
			first.redisNet.holdEvents() // the session hears of the move when it has left
			if !leaveFirst {
				second.moveTo(t, "42", "T", "a")
			}
			a.askAbout("T", `"leave"`, `"version":2,"count":0`)
			if leaveFirst {
				second.moveTo(t, "42", "T", "a")
			}
			first.redisNet.resume()
			a.expectWithin(lostMoved, time.Second)
			if leaveFirst { // the seat was reserved after the leave: the session is moved
				a.expectIn(`"user":"a"`)
				time.Sleep(time.Minute)
				second.expectMembers(t, "T", "a")
				return
			}
			a.expectWithin(`{"event":"lost","room":"T","reason":"left"}`, time.Second)
			expectQuiet(a)
			second.expectMembers(t, "T", "")
		})
	}
}

// A leave of the room to which the user was moved takes effect, also if the session has not taken the seat yet, or
// hears of the move while the leave runs. Then the reply comes behind the news of the move, and is the last word.
func TestMove_LeaveAtOnce(t *testing.T) {
	bubble(t, "after the news", func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		open := first.hook.gate(room.KindJoin, func() {})
		second.moveTo(t, "42", "T", "a")
		a.expect(lostMoved)
		a.send(`{"id":9,"room":"T","action":"leave"}`)
		synctest.Wait()
		open()
		a.expectWithin(`{"id":9,"room":"T","version":3,"count":0}`, time.Second)
		expectQuiet(a)
		second.expectMembers(t, "T", "")
	})
	bubble(t, "watching", func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		second.joins(t, "x", "T")
		a.send(`{"id":8,"room":"T","action":"watch"}`)
		a.next("the list of T", time.Second)
		open := first.hook.gate(room.KindJoin, func() {})
		second.moveTo(t, "42", "T", "a")
		for a.next("the news of the move", time.Second) != lostMoved { // T's may come first
		}
		second.joins(t, "y", "T")
		a.expectSilence() // T's events are kept back for the seat there
		a.send(`{"id":9,"room":"T","action":"leave"}`)
		synctest.Wait()
		open()
		got := a.next("what happened before the leave", time.Second)
		redistest.ErrorIf(t, !strings.Contains(got, `{"type":"join","user":"y","seat":2}`), "before the reply came %s", got)
		a.expect(`{"id":9,"room":"T","version":5,"count":2}`)
		a.next("the leave, since it watches", time.Second)
		expectQuiet(a)
		second.expectMembers(t, "T", "x y")
	})
	bubble(t, "before the news", func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		open := first.hook.gate(room.KindLeave, func() {})
		a.send(`{"id":9,"room":"T","action":"leave"}`)
		synctest.Wait()
		second.moveTo(t, "42", "T", "a")
		a.expect(lostMoved)
		open()
		a.expectWithin(`{"id":9,"room":"T","version":3,"count":0}`, time.Second)
		expectQuiet(a)
		second.expectMembers(t, "T", "")
	})
}

// A leave of the room to which the user was moved has no answer: no event comes of a room that the client has not seen.
func TestMove_LeaveUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		open := first.hook.gate(room.KindJoin, func() {})
		second.moveTo(t, "42", "T", "a")
		a.expect(lostMoved)
		a.send(`{"id":9,"room":"T","action":"leave"}`)
		synctest.Wait()
		open()
		first.hook.setBefore(func(_ context.Context, a room.Action) error {
			if room.KindOf(a) == room.KindLeave {
				return room.ErrUnknown
			}
			return nil
		})
		a.expect(`{"id":9,"room":"T","error":{"code":"unknown","message":"it may or may not have been written; ask for users","retry":false}}`)
		for _, user := range []string{"x", "y"} {
			_, err := second.rooms.Do(t.Context(), "T", room.Join{User: user, Session: user})
			redistest.OK(t, err)
		}
		expectQuiet(a)
		first.hook.setBefore(nil)
		a.exchange(`{"id":10,"room":"T","action":"leave"}`, `{"id":10,"room":"T","version":5,"count":2}`)
	})
}

// The news of a move into a room where the session was a member comes when the room knows that it has left, and the client
// not yet: the session does not come in again to leave.
func TestMove_LeaveAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		a.askAbout("T", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
		first.redisNet.holdEvents()
		second.moveTo(t, "42", "T", "a")
		left := make(chan struct{})
		first.hook.setAfter(func(a room.Action) {
			if room.KindOf(a) == room.KindLeave {
				<-left
			}
		})
		a.send(`{"id":9,"room":"T","action":"leave"}`)
		synctest.Wait()
		first.redisNet.resume()
		a.expectWithin(lostMoved, time.Second)
		close(left)
		a.expectWithin(`{"id":9,"room":"T","version":2,"count":0}`, time.Second)
		expectQuiet(a)
		second.expectMembers(t, "T", "")
	})
}

// Users are moved on, kicked or closed out before their session has taken the seat: they hear what happened.
func TestMove_TakenOutOfTarget(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		do   func(t *testing.T, s *testNode)
		want string
	}{
		"moved on": {func(t *testing.T, s *testNode) { s.moveTo(t, "T", "U", "a") }, `{"event":"lost","room":"T","reason":"moved","to":"U"}`},
		"kicked":   {func(t *testing.T, s *testNode) { s.actIn(t, "T", room.Kick{User: "a", Text: "loud"}) }, `{"event":"lost","room":"T","reason":"kicked","text":"loud"}`},
		"closed":   {func(t *testing.T, s *testNode) { s.actIn(t, "T", room.Close{}) }, `{"event":"lost","room":"T","reason":"closed"}`},
	} {
		bubble(t, what, func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			open := first.hook.gate(room.KindJoin, func() {})
			second.moveTo(t, "42", "T", "a")
			a.expect(lostMoved)
			tt.do(t, second)
			open()
			a.expectWithin(tt.want, time.Second)
			if what == "moved on" {
				got := a.next("a snapshot of U", time.Second)
				redistest.ErrorIf(t, !strings.HasPrefix(got, `{"event":"snapshot","room":"U"`) || !strings.Contains(got, `"user":"a"`), "got %s", got)
			}
			expectQuiet(a)
			in := second.members(t, "T") + second.members(t, "U")
			redistest.ErrorIf(t, (in == "a") != (what == "moved on"), "in T and U are %q", in)
		})
	}
}

// A leave that comes too late, because the user was moved, kicked or closed out, is refused behind the event that
// says so. Who was moved is in the other room, and knows it.
func TestMove_LeaveOfOrigin(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		do   func(t *testing.T, s *testNode)
		want string
	}{
		"moved":  {func(t *testing.T, s *testNode) { s.moveTo(t, "42", "T", "a") }, lostMoved},
		"kicked": {func(t *testing.T, s *testNode) { s.actIn(t, "42", room.Kick{User: "a", Text: "loud"}) }, `{"event":"lost","room":"42","reason":"kicked","text":"loud"}`},
		"closed": {func(t *testing.T, s *testNode) { s.actIn(t, "42", room.Close{}) }, `{"event":"lost","room":"42","reason":"closed"}`},
	} {
		bubble(t, what, func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			first.redisNet.holdEvents()
			tt.do(t, second)
			a.send(leave42)
			a.expectWithin(tt.want, time.Second)
			a.expect(`{"id":2,"room":"42","error":{"code":"not_member","message":"a is not in room 42","retry":false}}`)
			first.redisNet.resume()
			if what == "moved" {
				a.expectIn(`"user":"a"`)
			}
			time.Sleep(time.Minute)
			a.drainChanges(t)
		})
	}
}

// Who is moved out of a room while a request about it runs hears of that, then gets the reply, and then the other room.
func TestMove_DuringRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		open := first.hook.gate("ready", func() {})
		a.send(`{"id":9,"room":"42","action":"ready","value":true}`)
		synctest.Wait()
		second.moveTo(t, "42", "T", "a")
		time.Sleep(time.Minute) // the node has had time to take the seat in T
		open()
		a.expectWithin(lostMoved, time.Second)
		a.expect(`{"id":9,"room":"42","error":{"code":"not_member","message":"a is not in room 42","retry":false}}`)
		a.expectStart(`{"event":"snapshot","room":"T"`)
		a.drainChanges(t)
	})
}

// Who was moved away and back, and has not heard of it, has the seat that is reserved for it: it leaves, and nobody has
// taken the session over.
func TestMove_AwayAndBack(t *testing.T) {
	for _, leave := range []bool{true, false} {
		bubble(t, fmt.Sprint("leave: ", leave), func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			first.redisNet.holdEvents()
			second.moveTo(t, "42", "T", "a")
			second.moveTo(t, "T", "42", "a")
			want := "b a"
			if leave {
				a.send(`{"id":9,"room":"42","action":"leave"}`)
				a.expectWithin(`{"id":9,"room":"42","version":6,"count":1}`, time.Second)
				want = "b"
			}
			first.redisNet.loseEvents()
			first.redisNet.resume()
			time.Sleep(time.Minute)
			redistest.Equal(t, "in 42 are", second.members(t, "42"), want)
			a.drain()
			a.askAbout("43", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`) // the connection stays
		})
	}
}

// askWhileMoving moves a to room T, whose events the node gets only once subscribe is closed, and has its client ask there before.
func askWhileMoving(t *testing.T, first, second *testNode, a *testClient) (subscribe chan struct{}) {
	subscribe = make(chan struct{})
	first.hook.watching = func(string) { <-subscribe }
	second.moveTo(t, "42", "T", "a")
	a.expect(lostMoved)
	a.send(`{"id":9,"room":"T","action":"ready","value":true}`)
	synctest.Wait()
	return subscribe
}

// A request about the room of a move, which the node is about to watch, has its reply before its own event.
func TestMove_ReplyBeforeItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		subscribe := askWhileMoving(t, first, second, a)
		first.hook.setAfter(func(a room.Action) {
			if room.KindOf(a) == "ready" {
				time.Sleep(time.Second) // until the event has come
			}
		})
		close(subscribe)
		a.expectWithin(`{"event":"snapshot","room":"T","version":2,"count":1,"users":[{"user":"a","seat":0}]}`, time.Minute)
		a.expect(`{"id":9,"room":"T","version":3,"count":1}`)
		a.expect(`{"event":"changes","room":"T","version":3,"from":2,"changes":[{"type":"member","user":"a","seat":0,"ready":true}]}`)
		a.expectSilence()
	})
}

// As above, but another session of the user sits there: this one hears so before the reply.
func TestMove_LostBeforeReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		newer := second.connect(t, "a")
		newer.takeOver("T", false)
		close(askWhileMoving(t, first, second, a))
		a.expectWithin(fmt.Sprintf(lostReplaced, "T"), time.Minute)
		a.expect(`{"id":9,"room":"T","error":{"code":"not_member","message":"a is in room T with another session","retry":false}}`)
		a.expectClose(protocol.CloseReplaced)
	})
}

// drainChanges expects nothing but changes of T.
func (v *testClient) drainChanges(t *testing.T) {
	t.Helper()
	for len(v.frames) > 0 {
		got := <-v.frames
		redistest.ErrorIf(t, !strings.HasPrefix(got, `{"event":"changes","room":"T"`), "got %s", got)
	}
	v.expectSilence()
}

// What came before a loss is delivered before it, also to who reads slowly.
func TestLost_AfterWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, _, b := twoNodes(t, room.Rules{}, Options{})
		slow := first.connectIdle(t, "slow")
		slow.send(join42)
		synctest.Wait()
		for i := range 3 {
			second.joins(t, fmt.Sprint("x", i), "42")
		}
		second.actIn(t, "42", room.Kick{User: "slow"})
		slow.expect(`{"id":1,"room":"42","version":3,"seat":2,"count":3,"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"slow","seat":2}]}`)
		slow.expect(`{"event":"changes","room":"42","version":6,"from":3,"changes":[{"type":"join","user":"x0","seat":3},{"type":"join","user":"x1","seat":4},{"type":"join","user":"x2","seat":5}]}`)
		slow.expect(`{"event":"lost","room":"42","reason":"kicked"}`)
		b.drain()
	})
}

// A session that was moved follows its move, also if it has missed that, and the user was reserved
// again and kicked since.
func TestMove_MissedAndKickedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.redisNet.holdEvents()
		second.moveTo(t, "42", "T", "a")
		second.reserveIn42(t, "a")
		second.actIn(t, "42", room.Kick{User: "a", Text: "loud"})
		first.redisNet.resume()
		a.expectWithin(lostMoved, time.Second)
		a.expectIn(`"user":"a"`)
	})
}
