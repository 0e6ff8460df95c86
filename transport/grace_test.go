package transport

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

const (
	bJoins    = `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"b","seat":0}]}`
	aJoins    = `{"id":1,"room":"42","version":2,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`
	aComes    = `{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"a","seat":1}]}`
	aIsBack   = `{"id":1,"room":"42","version":3,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`
	aUnseen   = `{"event":"changes","room":"42","version":3,"from":2,"changes":[]}`
	aGoes     = `{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"a","seat":1}]}`
	joinOf42  = `{"id":1,"action":"join","room":"42"}`
	leaveOf42 = `{"id":2,"action":"leave","room":"42"}`
	usersOf42 = `{"id":3,"action":"users","room":"42"}`
)

// twoNodes returns two servers on one Redis, b in room 42 through the second, and a
// through the first.
func twoNodes(t *testing.T, rules room.Rules, opts Options) (first, second *bubbleServer, a, b *visitor) {
	t.Helper()
	mini, _ := redistest.Mini(t)
	first, second = startInBubble(t, mini, rules, opts), startInBubble(t, mini, rules, opts)
	b = second.connect(t, "b")
	b.say(joinOf42)
	b.hear(bJoins)
	a = first.connect(t, "a")
	a.say(joinOf42)
	a.hear(aJoins)
	b.hear(aComes)
	return first, second, a, b
}

// Who does not come back leaves when the grace is over, and not before.
func TestGraceEnds(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{0: DefaultGrace, 3 * time.Second: 3 * time.Second, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			_, _, a, b := twoNodes(t, room.Rules{}, Options{Grace: grace})
			start := time.Now()
			a.cut()
			if want > 0 {
				time.Sleep(want - 10*time.Millisecond)
				b.quiet()
			}
			b.wait(aGoes, time.Second)
			if took := time.Since(start); took > want+10*time.Millisecond {
				t.Errorf("grace %v: left after %v", grace, took)
			}
		})
	}
}

// Who comes back in time, to any node, keeps the seat, and the others hear of
// neither a leave nor a join, also when the grace is over.
func TestComingBackWithinTheGrace(t *testing.T) {
	for name, duplicate := range map[string]room.Duplicate{"replace": room.Replace, "reject": room.Reject} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", elsewhere ", elsewhere), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first, second, a, b := twoNodes(t, room.Rules{Duplicate: duplicate}, Options{})
					at := first
					if elsewhere {
						at = second
					}
					a.cut()
					unseen, back := aUnseen, aIsBack
					if duplicate == room.Reject {
						b.hear(aUnseen) // it was detached
						unseen = `{"event":"changes","room":"42","version":4,"from":3,"changes":[]}`
						back = `{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`
					}
					time.Sleep(9900 * time.Millisecond)
					a = at.connect(t, "a")
					a.say(joinOf42)
					a.hear(back)
					b.hear(unseen)
					time.Sleep(time.Minute)
					a.quiet()
					b.quiet()
					if got := at.members(t, "42"); got != "b a" {
						t.Errorf("a minute later %q are in", got)
					}
				})
			})
		}
	}
}

// A requested leave, and being replaced, begin no grace.
func TestNoGraceForWhoLeftOrWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{})
		newer := first.connect(t, "a")
		newer.say(joinOf42)
		newer.hear(aIsBack)
		b.hear(aUnseen)
		a.ended(protocol.CloseReplaced)
		newer.say(leaveOf42)
		newer.hear(`{"id":2,"room":"42","version":4,"count":1}`)
		newer.cut()
		if n := len(first.departures.pending); n != 0 {
			t.Errorf("%d sessions are in their grace", n)
		}
	})
}

// A session that was replaced in one room leaves the others.
func TestReplacedInOneRoomOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, _ := twoNodes(t, room.Rules{}, Options{})
		a.say(`{"id":2,"action":"join","room":"43"}`)
		a.hear(`{"id":2,"room":"43","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		newer := first.connect(t, "a")
		newer.say(joinOf42)
		newer.hear(aIsBack)
		a.ended(protocol.CloseReplaced)
		time.Sleep(DefaultGrace + time.Second)
		if in42, in43 := first.members(t, "42"), first.members(t, "43"); in42 != "b a" || in43 != "" {
			t.Errorf("in 42 are %q, in 43 %q", in42, in43)
		}
	})
}

// The leave is tried until it is done.
func TestTheLeaveIsTriedAgain(t *testing.T) {
	for _, passing := range []error{room.ErrUnavailable, room.ErrBusy, room.ErrUnknown, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			first, _, a, b := twoNodes(t, room.Rules{}, Options{})
			attempts, leave := 0, room.Leave("a", first.session(t, "a"))
			first.hook.set(func(_ context.Context, action room.Action) error {
				if action != leave {
					t.Errorf("%+v", action)
				}
				if attempts++; attempts < 10 {
					return fmt.Errorf("for now: %w", passing)
				}
				return nil
			})
			a.cut()
			b.wait(aGoes, 10*lastPause+DefaultGrace)
			if attempts != 10 {
				t.Errorf("%d attempts", attempts)
			}
		})
	}
}

// An attempt at a leave that does not end is broken off, and made again.
func TestALeaveThatHangsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{Grace: -1, LeaveTimeout: 3 * time.Second})
		var hung atomic.Bool
		var again atomic.Int64 // when
		start := time.Now()
		first.hook.set(func(ctx context.Context, _ room.Action) error {
			if hung.CompareAndSwap(false, true) {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			again.Store(int64(time.Since(start)))
			return nil
		})
		a.cut()
		time.Sleep(time.Minute)
		if after := time.Duration(again.Load()); after < 3*time.Second || after > 3*time.Second+lastPause {
			t.Errorf("tried again after %v", after)
		}
		b.hear(aGoes)
	})
}

// Shutdown waits for no grace, and lets nobody leave whose grace is not over; it
// does not wait for a better time to try a leave again either.
func TestShutdownEndsTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		waiting := first.connect(t, "waits in another room")
		waiting.say(`{"id":1,"action":"join","room":"43"}`)
		waiting.hear(`{"id":1,"room":"43","version":1,"seat":0,"count":1,"users":[{"user":"waits in another room","seat":0}]}`)
		leave := room.Leave("waits in another room", first.session(t, "waits in another room"))
		first.hook.set(func(_ context.Context, action room.Action) error {
			if action == leave {
				return room.ErrUnavailable
			}
			return nil
		})
		waiting.cut()
		time.Sleep(5 * time.Second)
		a.cut()
		time.Sleep(7 * time.Second)
		start := time.Now()
		if err := first.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Minute)
		b.quiet()
		if got := second.members(t, "42"); got != "b a" {
			t.Errorf("in the room are %q", got)
		}
	})
}

// Nobody whose grace ends while a node drains leaves, nor who goes meanwhile.
func TestNoGraceEndsDuringADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{Grace: time.Second, DrainSpread: time.Minute})
		first.connect(t, "stays") // two of them: the drain lasts, whatever its order
		first.connect(t, "stays, too")
		goes := first.connect(t, "goes")
		goes.say(joinOf42)
		goes.hear(`{"id":1,"room":"42","version":3,"seat":2,"count":3,"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"goes","seat":2}]}`)
		b.hear(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"join","user":"goes","seat":2}]}`)
		a.cut()
		start, done := time.Now(), make(chan error, 1)
		go func() { done <- first.Shutdown(context.Background()) }()
		time.Sleep(time.Millisecond)
		goes.cut()
		if err := redistest.Receive(t, done, "Shutdown"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 10*time.Second {
			t.Fatalf("the drain was over in %v", took)
		}
		b.quiet()
		if got := second.members(t, "42"); got != "b a goes" {
			t.Errorf("in the room are %q", got)
		}
	})
}

// Under Reject a user has one session; the seat of one whose connection has ended,
// or was ended by a restart, is free for the user's next.
func TestReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{Duplicate: room.Reject}, Options{})
		other := second.connect(t, "a")
		other.say(joinOf42)
		other.hear(`{"id":1,"error":{"code":"duplicate_user","message":"a is in room 42 with another session","retry":true}}`)
		a.quiet()
		done := make(chan error, 1)
		first.hook.set(func(context.Context, room.Action) error { // until then it must not hear that it should come back
			a.quiet()
			return nil
		})
		go func() { done <- first.Shutdown(context.Background()) }()
		b.hear(aUnseen)
		a.ended(protocol.CloseRestart)
		if err := redistest.Receive(t, done, "Shutdown"); err != nil {
			t.Fatal(err)
		}
		other.say(joinOf42)
		other.hear(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
	})
}

// What says that a session is gone is tried until the grace is over.
func TestTheDetachIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{Duplicate: room.Reject}, Options{Grace: time.Minute})
		detach := room.Detach("a", first.session(t, "a"))
		var down atomic.Bool
		down.Store(true)
		first.hook.set(func(_ context.Context, action room.Action) error {
			if down.Load() && action == detach {
				return room.ErrUnavailable
			}
			return nil
		})
		a.cut()
		time.Sleep(20 * time.Second)
		down.Store(false)
		time.Sleep(lastPause)
		other := second.connect(t, "a")
		other.say(joinOf42)
		other.hear(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
	})
}
