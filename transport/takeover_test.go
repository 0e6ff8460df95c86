package transport

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"roomd/room"
	"roomd/transport/protocol"
)

const (
	aLeft   = `{"id":2,"room":"42","version":4,"count":1}`
	aIsLost = `{"event":"lost","room":"42","reason":"room_full"}`
)

// While a node does not hear what happens, users come through another one, and some of
// them leave. It learns from the snapshot who was replaced: those connections are
// closed, and a leave that was acknowledged stays.
func TestAMissedTakeOver(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		for name, miss := range map[string]func(first *bubbleServer, meanwhile func()){
			"the connection for events breaks": func(first *bubbleServer, meanwhile func()) {
				first.ear.cut()
				meanwhile()
			},
			"the node is cut off for longer than its lease": func(first *bubbleServer, meanwhile func()) {
				first.ear.stop()
				time.Sleep(room.DefaultNodeTTL)
				meanwhile()
				time.Sleep(3 * time.Second)
				first.ear.free()
			},
			"events come late": func(first *bubbleServer, meanwhile func()) {
				first.ear.hold()
				meanwhile()
				first.ear.free()
			},
			"events come later than the node's new name": func(first *bubbleServer, meanwhile func()) {
				first.ear.hold()
				meanwhile()
				first.redis.Del(context.Background(), "Node:"+first.rooms.Node())
				time.Sleep(room.DefaultNodeTTL)
				first.ear.free()
			},
		} {
			t.Run(fmt.Sprintf("%s, leaves %v", name, leaves), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first, second, a, b := twoNodes(t, room.Rules{}, Options{})
					var newer *visitor
					miss(first, func() {
						newer = second.connect(t, "a")
						newer.say(joinOf42)
						newer.hear(aIsBack)
						if leaves {
							newer.say(leaveOf42)
							newer.hear(aLeft)
						}
					})
					time.Sleep(time.Minute)
					a.ended(protocol.CloseReplaced)
					newer.quiet()
					want := "b a"
					if leaves {
						want = "b"
					}
					if got := second.members(t, "42"); got != want {
						t.Errorf("in the room are %q, want %q", got, want)
					}
					if lastVersion(t, newSince(b, 2)); t.Failed() {
						t.Error("b was told of it with a gap")
					}
				})
			})
		}
	}
}

// newSince has what a visitor was told begin with a version.
func newSince(v *visitor, version uint64) *visitor {
	frames := make(chan string, cap(v.frames)+1)
	frames <- fmt.Sprintf(`{"event":"snapshot","room":"42","version":%d,"count":0,"users":[]}`, version)
	for len(v.frames) > 0 {
		frames <- <-v.frames
	}
	return &visitor{v.player, frames, v.closed}
}

// A node hears for a while nothing at all, and its members are removed as a dead node's.
// It cannot know who has left meanwhile, but nobody came elsewhere: they are back.
func TestCutOffUntilRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		first.ear.stop()
		b.wait(aGoes, time.Minute)
		first.ear.free()
		b.wait(aReturns, time.Minute)
		if got := second.members(t, "42"); got != "b a" {
			t.Errorf("in the room are %q", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(a.closed) > 0 {
			t.Errorf("a: %v", <-a.closed)
		}
	})
}

// The same, and the events of it only come late: they tell who came elsewhere and left.
func TestRemovedAndComeElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.ear.hold()
		throwOut(t, first, second) // as the removal of a dead node's members
		newer := second.connect(t, "a")
		newer.say(joinOf42)
		newer.hear(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
		newer.say(leaveOf42)
		newer.hear(`{"id":2,"room":"42","version":5,"count":1}`)
		first.ear.free()
		time.Sleep(time.Minute)
		a.ended(protocol.CloseReplaced)
		if got := second.members(t, "42"); got != "b" {
			t.Errorf("in the room are %q", got)
		}
	})
}

// Of two sessions of a user the one whose join was committed last stays, however late it
// hears that it was replaced before.
func TestAnOlderTakeOverDoesNotCount(t *testing.T) {
	check := func(t *testing.T, older, newer *visitor, at *bubbleServer) {
		t.Helper()
		older.wait(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`, time.Second)
		time.Sleep(time.Minute)
		newer.ended(protocol.CloseReplaced)
		synctest.Wait()
		if len(older.closed) > 0 {
			t.Fatalf("the session that joined last: %v", <-older.closed)
		}
		if got := at.members(t, "42"); got != "b a" {
			t.Errorf("in the room are %q", got)
		}
	}
	t.Run("on one node", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first, _, a, _ := twoNodes(t, room.Rules{}, Options{})
			again, entered, replaced := room.Join("a", first.session(t, "a")), make(chan struct{}), make(chan struct{})
			newer := first.connect(t, "a")
			first.hook.set(func(_ context.Context, action room.Action) error {
				if action == again {
					close(entered)
					<-replaced
				}
				return nil
			})
			a.say(joinOf42)
			<-entered
			newer.say(joinOf42)
			newer.hear(aIsBack)
			close(replaced)
			check(t, a, newer, first)
		})
	})
	t.Run("on two", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			first.ear.hold()
			newer := second.connect(t, "a")
			newer.say(joinOf42)
			newer.hear(aIsBack)
			a.say(joinOf42)
			synctest.Wait()
			time.Sleep(time.Second) // the reply is behind the older event, and is told
			first.ear.free()
			check(t, a, newer, second)
		})
	})
}

// A member who is brought back after having come and left through another node, of which
// this one has not heard yet, leaves again.
func TestBroughtBackTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		entered, goOn := make(chan struct{}), make(chan struct{})
		first.hook.set(func(context.Context, room.Action) error {
			first.hook.set(nil)
			close(entered)
			<-goOn
			return nil
		})
		throwOut(t, first, second)
		<-entered
		first.ear.hold()
		newer := second.connect(t, "a")
		newer.say(joinOf42)
		newer.hear(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
		newer.say(leaveOf42)
		newer.hear(`{"id":2,"room":"42","version":5,"count":1}`)
		close(goOn)
		time.Sleep(time.Second)
		first.ear.free()
		time.Sleep(time.Second)
		a.ended(protocol.CloseReplaced)
		if got := second.members(t, "42"); got != "b" {
			t.Errorf("in the room are %q", got)
		}
	})
}

// What a client reads has no gap up to the close: of the take-over and what comes behind
// it nothing is written.
func TestNothingIsToldBehindATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		entered, replaced := make(chan struct{}), make(chan struct{})
		first.hook.set(func(_ context.Context, action room.Action) error {
			if action == room.Join("a", first.session(t, "a")) {
				close(entered)
				<-replaced
			}
			return nil
		})
		a.say(`{"id":5,"action":"join","room":"43"}`) // keeps the connection open
		<-entered
		newer := second.connect(t, "a")
		newer.say(joinOf42)
		newer.hear(aIsBack)
		c := second.connect(t, "c")
		c.say(joinOf42)
		synctest.Wait()
		if len(a.frames) > 0 {
			t.Errorf("behind the take-over a heard %s", <-a.frames)
		}
		close(replaced)
		a.hear(`{"id":5,"room":"43","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		a.ended(protocol.CloseReplaced)
	})
}

// A member who asks for the seat again, and is refused because the room is full now, is
// told that the seat is lost, behind the refusal.
func TestAFullRoomRefusesAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{Capacity: 2}, Options{})
		first.hook.set(func(_ context.Context, action room.Action) error {
			if action != room.Join("a", first.session(t, "a")) {
				return room.ErrUnavailable // the server's own attempts
			}
			return nil
		})
		throwOut(t, first, second)
		a.hear(aGoes)
		c := second.connect(t, "c")
		c.say(joinOf42)
		a.hear(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"join","user":"c","seat":1}]}`)
		a.say(joinOf42)
		a.hear(`{"id":1,"error":{"code":"room_full","message":"room 42 is full: 2 of 2 seats taken","retry":false}}`)
		a.hear(aIsLost)
		c.say(leaveOf42)
		time.Sleep(time.Minute)
		a.quiet()
	})
}

// Redis forgets everything, and no connection breaks: each node finds out when it prolongs
// its lease, and all who are connected are back on their seats.
func TestRedisForgetsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, _, _ := twoNodes(t, room.Rules{}, Options{})
		first.redis.FlushAll(t.Context())
		time.Sleep(room.DefaultNodeTTL)
		if got := second.members(t, "42"); got != "b a" {
			t.Errorf("in the room are %q", got)
		}
	})
}
