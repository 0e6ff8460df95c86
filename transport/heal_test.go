package transport

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// Whose place is gone for good has heard of it, hears no more of the room, and can
// join anew.
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
			time.Sleep(lastPause + time.Second)
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
			join := room.Join("a", first.session(t, "a")).At(1)
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
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			entered := make(chan struct{})
			first.hook.set(func(ctx context.Context, action room.Action) error {
				if action != room.Leave("a", first.session(t, "a")) {
					close(entered)
					second.rooms.Read(ctx, "42") // takes a moment, and the leave comes
				}
				return nil
			})
			throwOut(t, first, second)
			<-entered
			a.say(leaveOf42)
			time.Sleep(time.Minute)
			if got := second.members(t, "42"); got != "b" {
				t.Errorf("a has left, and in the room are %q", got)
			}
			b.hear(aGoes)
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
