package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/internal/outbox"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

const (
	eventALost = `{"event":"lost","room":"42","reason":"room_full"}`
)

// While a node misses events, users take their seats over through another one, and some of them
// leave. From the snapshot the node learns who was replaced: it closes those connections, and
// an acknowledged leave stays.
func TestTakeOver_Missed(t *testing.T) {
	t.Parallel()
	const breaks, cutOff = "the connection for events breaks", "the node is cut off for longer than its lease"
	for _, leaves := range []bool{false, true} {
		for name, miss := range map[string]func(first *testNode, meanwhile func()){
			breaks: func(first *testNode, meanwhile func()) {
				first.redisNet.cutEvents()
				meanwhile()
			},
			cutOff: func(first *testNode, meanwhile func()) {
				first.redisNet.stop()
				time.Sleep(coordinator.DefaultNodeTTL + time.Second)
				meanwhile()
				time.Sleep(3 * time.Second)
				first.redisNet.resume()
			},
			"events come late": func(first *testNode, meanwhile func()) {
				first.redisNet.holdEvents()
				meanwhile()
				first.redisNet.resume()
			},
			"events come later than the node's new name": func(first *testNode, meanwhile func()) {
				first.redisNet.holdEvents()
				meanwhile()
				first.redis.Del(context.Background(), "Node:"+first.rooms.Node())
				time.Sleep(coordinator.DefaultNodeTTL)
				first.redisNet.resume()
			},
		} {
			bubble(t, fmt.Sprintf("%s, leaves %v", name, leaves), func(t *testing.T) {
				first, second, a, b := twoNodes(t, room.Rules{}, Options{})
				var newer *testClient
				miss(first, func() {
					newer = second.connect(t, "a")
					newer.send(join42) // where its node was cut off, a may have been shown as away before
					newer.expectEnd(`"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
					if leaves {
						newer.send(leave42)
						newer.expectEnd(`"count":1}`)
					}
				})
				time.Sleep(time.Minute)
				if leaves && (name == breaks || name == cutOff) { // nobody can tell whether it was a take-over
					a.expect(`{"event":"lost","room":"42","reason":"left"}`)
					a.expectSilence()
				} else {
					a.expectClose(protocol.CloseReplaced)
				}
				newer.expectSilence()
				want := "b a"
				if leaves {
					want = "b"
				}
				redistest.Equal(t, "in the room are", second.members(t, "42"), want)
				if fromVersion(b, 2).lastVersion(); t.Failed() {
					t.Error("the events of b have a gap")
				}
			})
		}
	}
}

// endOnly is a connection that is only ended.
type endOnly func(code int)

func (f endOnly) End(code int, _ string) bool { f(code); return true }
func (endOnly) IsOver() bool                  { return false }
func (endOnly) Named()                        {}

// A session is replaced while a request of its client is already read. The request is refused:
// its join would take the place back, and nobody would speak for the user once the connection
// is closed with "do not connect again".
func TestTakeOver_RequestBehind(t *testing.T) {
	server := start(t, room.Rules{}, Options{})
	server.rooms.AnswerFor(func(string, string) bool { return true }) // the older sessions here have no connection
	for _, action := range []string{"join", "leave", "users", "watch", "unwatch"} {
		t.Run(action, func(t *testing.T) {
			user := "a-" + action
			ended := make(chan int, 1)
			out := outbox.New(1 << 20)
			older := session.New(server.sessions, user, nil, out, endOnly(func(code int) { ended <- code }))
			older.Begin()
			older.Handle([]byte(`{"id":1,"action":"join","room":"42"}`))
			newer := server.connect(t, user)
			newer.send(`{"id":1,"action":"join","room":"42"}`)
			select {
			case code := <-ended:
				redistest.FatalIf(t, code != protocol.CloseReplaced, "closed with %d", code)
			case <-time.After(5 * time.Second):
				t.Fatal("the older session is not closed")
			}
			for frame, events := out.Next(); len(frame)+len(events) > 0; frame, events = out.Next() {
			}

			older.Handle(fmt.Appendf(nil, `{"id":2,"action":%q,"room":"42"}`, action))
			frame, _ := out.Next()
			redistest.ErrorIf(t, !strings.Contains(string(frame), `"id":2,"room":"42","error":{"code":"duplicate_user"`),
				"the reply is %s", frame)
			_, err := server.rooms.Do(context.Background(), "42", room.Leave{User: user, Session: older.ID})
			redistest.ErrorIf(t, !errors.Is(err, room.ErrNotMember),
				"the older session speaks for the user again (%v)", err)
			older.Close()
		})
	}
}

// fromVersion returns the client as if its events began with a snapshot at a version.
func fromVersion(v *testClient, version uint64) *testClient {
	frames := make(chan string, cap(v.frames)+1)
	frames <- fmt.Sprintf(`{"event":"snapshot","room":"42","version":%d,"count":0,"users":[]}`, version)
	for len(v.frames) > 0 {
		frames <- <-v.frames
	}
	return &testClient{t: v.t, ws: v.ws, frames: frames, closed: v.closed}
}

// A node is cut off, and its members are away and then removed as a dead node's. They rejoin, since no other
// session took their seats.
func TestTakeOver_CutOffUntilRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		first.redisNet.stop()
		b.expectWithin(eventOf(3, `{"type":"away","user":"a","seat":1}`), 8*time.Second)
		b.expectWithin(eventOf(4, `{"type":"leave","user":"a","seat":1,"reason":"node"}`), time.Minute)
		first.redisNet.resume()
		b.expectWithin(eventOf(5, `{"type":"join","user":"a","seat":1}`), time.Minute)
		second.expectMembers(t, "42", "b a")
		time.Sleep(time.Minute)
		synctest.Wait()
		redistest.ErrorIf(t, len(a.closed) > 0, "a is closed")
	})
}

// A node stands still for longer than its lease, but not until its members are removed. They are away,
// and back when it goes on.
func TestTakeOver_CutOffUntilAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{})
		first.redisNet.stop()
		b.expectWithin(eventOf(3, `{"type":"away","user":"a","seat":1}`), 8*time.Second)
		first.redisNet.resume()
		b.expectWithin(eventOf(4, `{"type":"back","user":"a","seat":1}`), 5*time.Second)
		expectQuiet(b)
		a.tell(`"ready","value":true`, `"version":5,"count":2`)
		b.expect(eventOf(5, `{"type":"member","user":"a","seat":1,"ready":true}`))
	})
}

// A member is removed and comes back through another node, and the first node gets the events
// late. It closes the connection.
func TestTakeOver_RemovedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.redisNet.holdEvents()
		removeA(t, first, second) // as the removal of a dead node's members
		newer := second.connect(t, "a")
		newer.exchange(join42, `{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
		newer.exchange(leave42, `{"id":2,"room":"42","version":5,"count":1}`)
		first.redisNet.resume()
		time.Sleep(time.Minute)
		a.expectClose(protocol.CloseReplaced)
		second.expectMembers(t, "42", "b")
	})
}

// Of two sessions of a user the one that joined last stays, however late it learns that it had
// been replaced before.
func TestTakeOver_Older(t *testing.T) {
	check := func(t *testing.T, older, newer *testClient, at *testNode) {
		t.Helper()
		older.expectWithin(`{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`, time.Second)
		time.Sleep(time.Minute)
		newer.expectClose(protocol.CloseReplaced)
		synctest.Wait()
		redistest.FatalIf(t, len(older.closed) > 0, "the session that joined last is closed")
		at.expectMembers(t, "42", "b a")
	}
	bubble(t, "on one node", func(t *testing.T) {
		first, _, a, _ := twoNodes(t, room.Rules{}, Options{})
		again, entered, replaced := room.Join{User: "a", Session: first.session(t, "a")}, make(chan struct{}), make(chan struct{})
		newer := first.connect(t, "a")
		first.hook.setBefore(func(_ context.Context, action room.Action) error {
			if action == again {
				close(entered)
				<-replaced
			}
			return nil
		})
		a.send(join42)
		<-entered
		newer.exchange(join42, replyARejoined)
		close(replaced)
		check(t, a, newer, first)
	})
	bubble(t, "on two", func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.redisNet.holdEvents()
		newer := second.connect(t, "a")
		newer.exchange(join42, replyARejoined)
		a.send(join42)
		synctest.Wait()
		time.Sleep(time.Second) // the reply is newer than the take-over, and is sent
		first.redisNet.resume()
		check(t, a, newer, second)
	})
}

// A member rejoins after the user had joined and left through another node, of which this one
// did not know yet. The member leaves again.
func TestTakeOver_LateRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		entered, goOn := first.hook.holdNext()
		removeA(t, first, second)
		<-entered
		first.redisNet.holdEvents()
		newer := second.connect(t, "a")
		newer.exchange(join42, `{"id":1,"room":"42","version":4,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
		newer.exchange(leave42, `{"id":2,"room":"42","version":5,"count":1}`)
		close(goOn)
		time.Sleep(time.Second)
		first.redisNet.resume()
		time.Sleep(time.Second)
		a.expectClose(protocol.CloseReplaced)
		second.expectMembers(t, "42", "b")
	})
}

// A client gets no event behind the take-over of its seat, so what it reads has no gap.
func TestTakeOver_NoEventsAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		entered, replaced := make(chan struct{}), make(chan struct{})
		join := room.Join{User: "a", Session: first.session(t, "a")}
		first.hook.setBefore(func(_ context.Context, action room.Action) error {
			if action == join {
				close(entered)
				<-replaced
			}
			return nil
		})
		a.send(`{"id":5,"action":"join","room":"43"}`) // keeps the connection open
		<-entered
		newer := second.connect(t, "a")
		newer.exchange(join42, replyARejoined)
		c := second.connect(t, "c")
		c.send(join42)
		a.expect(`{"event":"lost","room":"42","reason":"replaced"}`)
		time.Sleep(3 * session.LastRoomWait / 2)
		a.expectSilence()
		close(replaced)
		a.expect(`{"id":5,"room":"43","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		time.Sleep(2 * session.LastRoomWait)
		a.expectSilence()
	})
}

// Requests that a client has sent before it knew that a newer session took its last room are done, as those are that
// join its other rooms after a reconnect. One that leads to no room, such as a leave that runs, keeps nothing open.
func TestTakeOver_SentBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		newer := second.connect(t, "a")
		newer.exchange(join42, replyARejoined)
		a.expect(`{"event":"lost","room":"42","reason":"replaced"}`)
		a.exchange(`{"id":5,"action":"join","room":"43"}`, `{"id":5,"room":"43","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		time.Sleep(2 * session.LastRoomWait)
		a.expectSilence()

		newer.exchange(`{"id":6,"action":"join","room":"43"}`, `{"id":6,"room":"43","version":2,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		a.expect(`{"event":"lost","room":"43","reason":"replaced"}`)
		a.send(`{"id":7,"action":"leave","room":"44"}`)
		a.expectEnd(`"retry":false}}`)
		a.expectClose(protocol.CloseReplaced)
	})
}

// A removed member who joins again, and is refused because the room is full now, gets the event
// lost, and then nothing more of the room.
func TestTakeOver_FullRoomRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{Seating: room.Capacity(2)}, Options{})
		join := room.Join{User: "a", Session: first.session(t, "a")}
		first.hook.setBefore(func(_ context.Context, action room.Action) error {
			if action != join {
				return room.ErrUnavailable // the server's own attempts
			}
			return nil
		})
		removeA(t, first, second)
		c := second.connect(t, "c")
		c.send(join42)
		time.Sleep(time.Second)
		a.expectSilence()
		a.exchange(join42, eventALost)
		a.expect(`{"id":1,"room":"42","error":{"code":"room_full","message":"room 42 is full: 2 of 2 seats taken","retry":false}}`)
		c.send(leave42)
		expectQuiet(a)
	})
}
