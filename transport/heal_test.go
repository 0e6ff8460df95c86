package transport

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

const aReturns = `{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"join","user":"a","seat":1}]}`

// throwOut takes a out of room 42 through the other node.
func throwOut(t *testing.T, first, second *bubbleServer) {
	t.Helper()
	if _, err := second.rooms.Do(t.Context(), "42", room.Leave("a", first.session(t, "a"))); err != nil {
		t.Fatal(err)
	}
}

// refusing returns a hook by which every join fails with err, as long as it holds.
func refusing(holds *atomic.Bool, err error, attempts *atomic.Int64) func(context.Context, room.Action) error {
	return func(_ context.Context, _ room.Action) error {
		attempts.Add(1)
		if holds.Load() {
			return fmt.Errorf("for now: %w", err)
		}
		return nil
	}
}

// A member who is taken out without having asked for it is in again, on the old
// seat, and everybody sees both.
func TestTakenOutAndInAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		throwOut(t, first, second)
		for _, v := range []*visitor{a, b} {
			v.hear(aGoes)
			v.hear(aReturns)
			v.quiet()
		}
		a.say(leaveOf42) // it is a member like any other
		a.hear(`{"id":2,"room":"42","version":5,"count":1}`)
		time.Sleep(time.Minute)
		a.quiet()
		if got := second.members(t, "42"); got != "b" {
			t.Errorf("a has left, and in the room are %q", got)
		}
	})
}

// What passes is waited for, in growing pauses.
func TestARejoinIsTriedAgain(t *testing.T) {
	for _, err := range []error{room.ErrUnavailable, room.ErrBusy, room.ErrUnknown} {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			var down atomic.Bool
			var attempts atomic.Int64
			down.Store(true)
			first.hook.set(refusing(&down, err, &attempts))
			throwOut(t, first, second)
			b.hear(aGoes)
			time.Sleep(time.Minute)
			if n := attempts.Load(); n < 10 || n > 40 {
				t.Errorf("%d attempts in a minute", n)
			}
			down.Store(false)
			b.wait(aReturns, lastPause)
			a.hear(aGoes)
			a.hear(aReturns)
		})
	}
}

// Where the seat is taken meanwhile any other does.
func TestARejoinTakesAnotherSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{Capacity: 3}, Options{})
		var down atomic.Bool
		var attempts atomic.Int64
		down.Store(true)
		first.hook.set(refusing(&down, room.ErrUnavailable, &attempts))
		throwOut(t, first, second)
		c := second.connect(t, "c")
		c.say(`{"id":1,"action":"join","room":"42","seat":1}`)
		c.hear(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"c","seat":1}]}`)
		down.Store(false)
		c.wait(`{"event":"changes","room":"42","version":5,"from":4,"changes":[{"type":"join","user":"a","seat":2}]}`, lastPause)
		throwOut(t, first, second) // it has to be known where it sits now
		c.hear(`{"event":"changes","room":"42","version":6,"from":5,"changes":[{"type":"leave","user":"a","seat":2}]}`)
		c.hear(`{"event":"changes","room":"42","version":7,"from":6,"changes":[{"type":"join","user":"a","seat":2}]}`)
		b.say(leaveOf42)
		c.hear(`{"event":"changes","room":"42","version":8,"from":7,"changes":[{"type":"leave","user":"b","seat":0}]}`)
		throwOut(t, first, second)
		c.hear(`{"event":"changes","room":"42","version":9,"from":8,"changes":[{"type":"leave","user":"a","seat":2}]}`)
		c.hear(`{"event":"changes","room":"42","version":10,"from":9,"changes":[{"type":"join","user":"a","seat":2}]}`)
		_ = a
	})
}

// Whose place is gone for good is told so, hears no more of the room, and can join anew.
func TestALostSeat(t *testing.T) {
	for _, watches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{Capacity: 2}, Options{})
			if watches {
				a.say(`{"id":9,"action":"watch","room":"42"}`)
				a.hear(`{"id":9,"room":"42","version":2,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
			}
			var down atomic.Bool
			var attempts atomic.Int64
			down.Store(true)
			first.hook.set(refusing(&down, room.ErrUnavailable, &attempts))
			throwOut(t, first, second)
			a.hear(aGoes)
			c := second.connect(t, "c")
			c.say(joinOf42)
			c.hear(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"c","seat":1}]}`)
			a.hear(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"join","user":"c","seat":1}]}`)
			down.Store(false)
			a.wait(`{"event":"lost","room":"42","reason":"room_full"}`, lastPause)
			b.say(leaveOf42)
			if watches {
				a.hear(`{"event":"changes","room":"42","version":5,"from":4,"changes":[{"type":"leave","user":"b","seat":0}]}`)
			}
			time.Sleep(time.Minute)
			a.quiet()
			a.say(joinOf42)
			a.hear(`{"id":1,"room":"42","version":6,"seat":0,"count":2,"users":[{"user":"a","seat":0},{"user":"c","seat":1}]}`)
		})
	}
}

// A leave that is asked for while a rejoin is tried, or under way, has the last word.
func TestALeaveEndsTheRejoin(t *testing.T) {
	t.Run("between two attempts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			join := room.Join("a", first.session(t, "a")).At(1).Again()
			first.hook.set(func(_ context.Context, action room.Action) error {
				if action == join {
					return room.ErrUnavailable
				}
				return nil
			})
			throwOut(t, first, second)
			a.hear(aGoes)
			time.Sleep(time.Minute)
			a.say(leaveOf42)
			a.hear(`{"id":2,"error":{"code":"not_member","message":"a is not in room 42","retry":false}}`)
			first.hook.set(nil)
			b.hear(aGoes)
			time.Sleep(time.Minute)
			b.quiet()
			b.say(leaveOf42) // of which a does not hear any more
			b.hear(`{"id":2,"room":"42","version":4,"count":0}`)
			a.quiet()
		})
	})
	t.Run("while it is written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			entered := make(chan struct{})
			first.hook.set(func(ctx context.Context, action room.Action) error {
				if action != room.Leave("a", first.session(t, "a")) {
					close(entered)
					second.rooms.Read(ctx, "42") // takes a moment, and the leave comes
				}
				return nil
			})
			throwOut(t, first, second)
			redistest.Receive(t, entered, "the rejoin")
			a.say(leaveOf42)
			time.Sleep(time.Minute)
			if got := second.members(t, "42"); got != "b" {
				t.Errorf("a has left, and in the room are %q", got)
			}
		})
	})
}

// A join that is asked for meanwhile takes the place of the rejoin.
func TestAJoinEndsTheRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		var down atomic.Bool
		var attempts atomic.Int64
		down.Store(true)
		first.hook.set(refusing(&down, room.ErrUnavailable, &attempts))
		throwOut(t, first, second)
		a.hear(aGoes)
		a.say(joinOf42) // refused, and the rejoin goes on
		a.hear(`{"id":1,"error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`)
		before := attempts.Load()
		time.Sleep(time.Minute)
		if attempts.Load() == before {
			t.Error("after a refused join the rejoin was given up")
		}
		down.Store(false)
		a.say(`{"id":1,"action":"join","room":"42","seat":3}`)
		a.hear(`{"id":1,"room":"42","version":4,"seat":3,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":3}]}`)
		before = attempts.Load()
		time.Sleep(time.Minute)
		a.quiet()
		if n := attempts.Load() - before; n != 0 {
			t.Errorf("%d attempts after a successful join", n)
		}
	})
}

// What takes a member out again before its join is known to be done is not missed.
func TestTakenOutBeforeTheReply(t *testing.T) {
	t.Run("of a join", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mini, _ := redistest.Mini(t)
			first, second := startInBubble(t, mini, room.Rules{}, Options{}), startInBubble(t, mini, room.Rules{}, Options{})
			a := first.connect(t, "a")
			first.hook.throwOutOnce(t, first, second)
			a.say(joinOf42)
			a.wait(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`, time.Minute)
			time.Sleep(time.Minute) // it hears of both, in one frame or in two
			if s, err := second.rooms.Read(t.Context(), "42"); err != nil || fmt.Sprint(s.Users()) != "[{a 0}]" || s.Version != 3 {
				t.Errorf("the room holds %v at version %d, %v", s.Users(), s.Version, err)
			}
		})
	})
	t.Run("of a rejoin", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first, second, _, b := twoNodes(t, room.Rules{}, Options{})
			first.hook.throwOutOnce(t, first, second)
			throwOut(t, first, second)
			b.hear(aGoes)
			b.hear(aReturns)
			b.hear(`{"event":"changes","room":"42","version":5,"from":4,"changes":[{"type":"leave","user":"a","seat":1}]}`)
			b.wait(`{"event":"changes","room":"42","version":6,"from":5,"changes":[{"type":"join","user":"a","seat":1}]}`, time.Minute)
		})
	})
}

// Who asked to leave is not brought back, also if nobody can say yet whether it did.
func TestALeaveWithUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		first.hook.set(func(context.Context, room.Action) error { return room.ErrUnknown })
		a.say(leaveOf42)
		a.hear(`{"id":2,"error":{"code":"unknown","message":"it may or may not have been written; ask for users","retry":false}}`)
		first.hook.set(nil)
		throwOut(t, first, second) // it was written after all
		a.hear(aGoes)
		b.hear(aGoes)
		time.Sleep(time.Minute)
		b.quiet()
	})
}

// A node that was believed dead for a moment has a new name; its sessions take it on
// before anybody removes the members of the old one, and no client hears of that.
func TestMembersFollowTheirNodesName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		before := first.rooms.Node()
		first.redis.Del(t.Context(), "Node:"+before)
		time.Sleep(time.Minute)
		if first.rooms.Node() == before {
			t.Fatal("the node kept its name")
		}
		member := first.redis.HGet(t.Context(), "Room:42:Users", "a").Val()
		if !strings.Contains(member, first.rooms.Node()) || second.members(t, "42") != "b a" {
			t.Errorf("a is %s, in the room are %q", member, second.members(t, "42"))
		}
		for _, v := range []*visitor{a, b} {
			v.hear(aUnseen)
			v.quiet()
		}
	})
}
