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
	"roomd/transport/internal/session"
)

const eventARejoined = `{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"join","user":"a","seat":1}]}`

// removeA removes a from room 42 through the other node.
func removeA(t *testing.T, first, second *testNode) {
	t.Helper()
	redistest.OK(t, redistest.Err(second.rooms.Do(t.Context(), "42", room.Leave{User: "a", Session: first.session(t, "a"), Reason: "node"})))
}

// A rejoin that fails for a transient reason is tried again, after growing pauses.
func TestRejoin_TriedAgain(t *testing.T) {
	for _, err := range []error{room.ErrUnavailable, room.ErrBusy, room.ErrUnknown} {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			attempts, heal := first.hook.failing(err)
			removeA(t, first, second)
			b.expect(eventARemoved)
			time.Sleep(time.Minute)
			n := attempts.Load()
			redistest.ErrorIf(t, n < 10 || n > 40, "%d attempts in a minute", n)
			heal()
			a.expectSilence()
			b.expectWithin(eventARejoined, session.LastPause)
			a.expect(eventABackIn)
		})
	}
}

// A rejoin takes any seat if the old one is taken.
func TestRejoin_AnotherSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, _, b := twoNodes(t, room.Rules{Seating: room.Capacity(3)}, Options{})
		_, heal := first.hook.failing(room.ErrUnavailable)
		removeA(t, first, second)
		c := second.connect(t, "c")
		c.send(`{"id":1,"action":"join","room":"42","seat":1}`)
		c.expect(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"settings":{"capacity":3},"users":[{"user":"b","seat":0},{"user":"c","seat":1}]}`)
		heal()
		c.expectWithin(`{"event":"changes","room":"42","version":5,"from":4,"changes":[{"type":"join","user":"a","seat":2}]}`, session.LastPause)
		removeA(t, first, second) // the server knows the new seat
		c.expectLeaveAndRejoin(6, 2)
		b.send(leave42)
		c.expect(`{"event":"changes","room":"42","version":8,"from":7,"changes":[{"type":"leave","user":"b","seat":0,"reason":"left"}]}`)
		removeA(t, first, second)
		c.expectLeaveAndRejoin(9, 2)
	})
}

// A member who cannot rejoin gets the event lost, no more events of the room, and can join
// anew.
func TestRejoin_LostSeat(t *testing.T) {
	for _, watches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{Seating: room.Capacity(2)}, Options{})
			if watches {
				a.send(`{"id":9,"action":"watch","room":"42"}`)
				a.expect(`{"id":9,"room":"42","version":2,"count":2,"settings":{"capacity":2},"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
			}
			_, heal := first.hook.failing(room.ErrUnavailable)
			removeA(t, first, second)
			c := second.connect(t, "c")
			c.send(join42)
			c.expect(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"settings":{"capacity":2},"users":[{"user":"b","seat":0},{"user":"c","seat":1}]}`)
			a.expectSilence()
			heal()
			a.expectWithin(`{"event":"lost","room":"42","reason":"room_full"}`, session.LastPause)
			if watches { // then it sees how that came
				a.expect(`{"event":"changes","room":"42","version":4,"from":2,"changes":[{"type":"leave","user":"a","seat":1,"reason":"node"},{"type":"join","user":"c","seat":1}]}`)
			}
			b.send(leave42)
			if watches {
				a.expect(`{"event":"changes","room":"42","version":5,"from":4,"changes":[{"type":"leave","user":"b","seat":0,"reason":"left"}]}`)
			}
			expectQuiet(a)
			a.send(join42)
			a.expect(`{"id":1,"room":"42","version":6,"seat":0,"count":2,"settings":{"capacity":2},"users":[{"user":"a","seat":0},{"user":"c","seat":1}]}`)
		})
	}
}

// A leave that the client asks for wins over a rejoin that waits or runs.
func TestRejoin_EndedByLeave(t *testing.T) {
	bubble(t, "between two attempts", func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		first.hook.setBefore(func(_ context.Context, action room.Action) error {
			if join, is := action.(room.Join); is && join.Mode == room.JoinAgain {
				return room.ErrUnavailable
			}
			return nil
		})
		removeA(t, first, second)
		expectQuiet(a)
		a.exchange(leave42, `{"id":2,"room":"42","error":{"code":"not_member","message":"a is not in room 42","retry":false}}`)
		first.hook.setBefore(nil)
		b.expect(eventARemoved)
		expectQuiet(b)
		b.exchange(leave42, `{"id":2,"room":"42","version":4,"count":0}`) // a gets no event of it
		a.expectSilence()
	})
	bubble(t, "while it is written", func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		entered := make(chan struct{})
		leave := room.Leave{User: "a", Session: first.session(t, "a")}
		first.hook.setBefore(func(ctx context.Context, action room.Action) error {
			if action != leave {
				close(entered)
				second.rooms.Read(ctx, "42") // takes a moment, in which the leave comes
			}
			return nil
		})
		removeA(t, first, second)
		redistest.Receive(t, entered, "the rejoin")
		a.send(leave42)
		time.Sleep(time.Minute)
		second.expectMembers(t, "42", "b")
	})
}

// A join that the client asks for replaces the rejoin.
func TestRejoin_EndedByJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		attempts, heal := first.hook.failing(room.ErrUnavailable)
		removeA(t, first, second)
		time.Sleep(time.Second)
		a.expectSilence()
		a.send(join42) // refused, and the rejoin goes on
		a.expect(`{"id":1,"room":"42","error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`)
		before := attempts.Load()
		time.Sleep(time.Minute)
		redistest.ErrorIf(t, attempts.Load() == before, "after a refused join the rejoin was given up")
		heal()
		a.ask(`"join","seat":3`, `"version":4,"seat":3,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":3}]`)
		before = attempts.Load()
		expectQuiet(a)
		redistest.Equal(t, "attempts after a successful join:", attempts.Load()-before, 0)
	})
}

// A member who is removed before its join has returned rejoins, too.
func TestRejoin_RemovedBeforeReply(t *testing.T) {
	bubble(t, "of a join", func(t *testing.T) {
		first, second := startPair(t, room.Rules{}, Options{})
		a := first.connect(t, "a")
		first.hook.removeAOnce(t, first, second)
		a.send(join42)
		a.expectWithin(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`, time.Minute)
		time.Sleep(time.Minute) // a gets both changes, in one frame or two
		if s, err := second.rooms.Read(t.Context(), "42"); err != nil || fmt.Sprint(s.Users()) != "[{a 0 false false }]" || s.Version != 3 {
			t.Errorf("the room holds %v at version %d, %v", s.Users(), s.Version, err)
		}
	})
	bubble(t, "of a rejoin", func(t *testing.T) {
		first, second, _, b := twoNodes(t, room.Rules{}, Options{})
		first.hook.removeAOnce(t, first, second)
		removeA(t, first, second)
		b.expectLeaveAndRejoin(3, 1)
		b.expect(`{"event":"changes","room":"42","version":5,"from":4,"changes":[{"type":"leave","user":"a","seat":1,"reason":"node"}]}`)
		b.expectWithin(`{"event":"changes","room":"42","version":6,"from":5,"changes":[{"type":"join","user":"a","seat":1}]}`, time.Minute)
	})
}

// A session that asked to leave is not brought back, also if the outcome of the leave is
// unknown. It hears no more of the room unless it watches, and may.
func TestLeave_UnknownOutcome(t *testing.T) {
	const forbidden = `{"id":2,"room":"42","error":{"code":"forbidden","message":"the settings of room 42 let only members watch it","retry":false}}`
	for _, c := range []struct {
		name     string
		settings room.Settings
		watches  bool
		hears    []string // after the reply
		users    string   // the reply to that
	}{
		{"member", room.Settings{Capacity: 9}, false, nil, `{"id":2,"room":"42","version":5,"count":1,"settings":{"capacity":9},"users":[{"user":"b","seat":0}]}`},
		{"watching", room.Settings{Capacity: 9}, true, []string{
			`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"a","seat":1,"reason":"node"}]}`, eventOf(5, `{"type":"message","text":"hi"}`),
		}, `{"id":2,"room":"42","version":5,"count":1,"settings":{"capacity":9},"users":[{"user":"b","seat":0}]}`},
		{"watching as a member", room.Settings{Watch: room.WatchMembers}, true, []string{`{"event":"unwatched","room":"42","reason":"forbidden"}`}, forbidden},
		{"only members watch", room.Settings{Watch: room.WatchMembers}, false, nil, forbidden},
	} {
		bubble(t, c.name, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			second.act(t, room.Configure{Settings: c.settings})
			for _, one := range []*testClient{a, b} {
				one.expectEnd(`}]}`)
			}
			if c.watches {
				a.send(`{"id":1,"action":"watch","room":"42"}`)
				a.expectEnd(`}]}`)
			}
			first.hook.setBefore(func(context.Context, room.Action) error { return room.ErrUnknown })
			a.send(leave42)
			a.expect(`{"id":2,"room":"42","error":{"code":"unknown","message":"it may or may not have been written; ask for users","retry":false}}`)
			first.hook.setBefore(nil)
			removeA(t, first, second) // it was written after all
			synctest.Wait()           // or both events come in one frame
			second.act(t, room.Say{Text: "hi"})
			for _, want := range c.hears {
				a.expect(want)
			}
			a.expectSilence()
			a.exchange(`{"id":2,"action":"users","room":"42"}`, c.users)
			b.expect(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"a","seat":1,"reason":"node"}]}`)
			b.expect(eventOf(5, `{"type":"message","text":"hi"}`))
			expectQuiet(a, b)
		})
	}
}

// A node that was believed dead for a moment has a new name. Its sessions adopt it before
// another node removes the members of the old one, and no client sees that.
func TestRejoin_NodeRenamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		before := first.rooms.Node()
		first.redis.Del(t.Context(), "Node:"+before)
		time.Sleep(time.Minute)
		redistest.FatalIf(t, first.rooms.Node() == before, "the node kept its name")
		member := first.redis.HGet(t.Context(), "Room:42:Users", "a").Val()
		redistest.ErrorIf(t, !strings.Contains(member, first.rooms.Node()) || second.members(t, "42") != "b a",
			"a is %s, in the room are %q", member, second.members(t, "42"))
		for _, v := range []*testClient{a, b} {
			v.expect(eventUnchanged)
			v.expectSilence()
		}
	})
}
