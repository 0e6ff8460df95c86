package transport

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

const lostReplaced = `{"event":"lost","room":%q,"reason":"replaced"}`

// takeOver has a connection of a join a room, by name or by match, where the user sits as the only one.
func (c *testClient) takeOver(id string, byMatch bool) {
	c.t.Helper()
	request := fmt.Sprintf(`{"id":1,"action":"join","room":%q}`, id)
	if byMatch {
		request = fmt.Sprintf(`{"id":1,"action":"match","labels":{"table":%q}}`, id)
	}
	c.send(request)
	c.expectEnd(`"users":[{"user":"a","seat":0}]}`)
}

// A user sits at three tables, and watches a fourth one. A second connection, on the same node or another, joins or
// matches one of them, and leaves it at once: the first has lost that one, and no other. It is closed when the last
// that it had is taken over, which is a room that it watches, too.
func TestTakeOver_OneRoomOnly(t *testing.T) {
	for _, byMatch := range []bool{false, true} {
		for _, elsewhere := range []bool{false, true} {
			bubble(t, fmt.Sprintf("by match %v, elsewhere %v", byMatch, elsewhere), func(t *testing.T) {
				first := start(t, room.Rules{}, Options{})
				second := first
				if elsewhere {
					second = first.beside(t, room.Rules{}, Options{})
				}
				a := first.connect(t, "a")
				tables := []string{"A", "B", "C"}
				for _, id := range tables {
					first.actIn(t, id, room.Configure{Settings: room.Settings{Labels: room.MakeLabels(map[string]string{"table": id})}})
					a.send(fmt.Sprintf(`{"id":1,"action":"join","room":%q}`, id))
					a.expectEnd(`"users":[{"user":"a","seat":0}]}`)
				}
				a.exchange(`{"id":2,"action":"watch","room":"W"}`, `{"id":2,"room":"W","epoch":"","version":0,"count":0,"users":[]}`)
				time.Sleep(2 * time.Second) // until the rooms are in the lobby

				newer := second.connect(t, "a")
				newer.takeOver("A", byMatch)
				a.expect(fmt.Sprintf(lostReplaced, "A"))
				a.exchange(`{"id":3,"action":"say","room":"A","text":"x"}`,
					`{"id":3,"room":"A","error":{"code":"not_member","message":"a is in room A with another session","retry":false}}`)
				newer.exchange(`{"id":2,"action":"leave","room":"A"}`, `{"id":2,"room":"A","version":4,"count":0}`)
				time.Sleep(defaultGrace + time.Second)
				a.expectSilence()
				first.expectMembers(t, "A", "")
				first.expectMembers(t, "B", "a")
				first.expectMembers(t, "C", "a")

				newer.takeOver("B", byMatch)
				a.expect(fmt.Sprintf(lostReplaced, "B"))
				a.send(`{"id":4,"action":"say","room":"C","text":"x"}`)
				a.expectEnd(`"count":1}`)
				a.expectEnd(`"changes":[{"type":"message","user":"a","text":"x"}]}`)
				newer.takeOver("C", byMatch)
				a.expect(fmt.Sprintf(lostReplaced, "C"))
				first.joins(t, "w", "W")
				a.expect(`{"event":"changes","room":"W","version":1,"from":0,"changes":[{"type":"join","user":"w","seat":0}]}`)
				a.exchange(`{"id":5,"action":"unwatch","room":"W"}`, `{"id":5,"room":"W","version":1,"count":1}`)
				a.expectSilence()

				a.takeOver("B", byMatch)
				newer.expect(fmt.Sprintf(lostReplaced, "B"))
				newer.takeOver("B", byMatch)
				a.expect(fmt.Sprintf(lostReplaced, "B"))
				a.expectClose(protocol.CloseReplaced)
				time.Sleep(defaultGrace + time.Second)
				newer.expectSilence()
				first.expectMembers(t, "B", "a")
				first.expectMembers(t, "C", "a")
			})
		}
	}
}

// A member of a room that also watches it goes on watching when a second connection takes the seat.
func TestTakeOver_Watcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		a.send(`{"id":2,"action":"watch","room":"42"}`)
		a.expectEnd(`"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
		newer := second.connect(t, "a")
		newer.exchange(join42, replyARejoined)
		a.expect(`{"event":"lost","room":"42","reason":"replaced"}`)
		a.expect(eventUnchanged)
		newer.exchange(leave42, `{"id":2,"room":"42","version":4,"count":1}`)
		a.expect(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"a","seat":1,"reason":"left"}]}`)
		a.expectSilence()
		first.expectMembers(t, "42", "b")
	})
}

// A session leaves while a newer one takes the seat over, of which its node has not heard: it hears that before the reply, and
// is closed, since it has nothing left.
func TestTakeOver_Leave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.redisNet.holdEvents()
		newer := second.connect(t, "a")
		newer.exchange(join42, replyARejoined)
		a.send(leave42)
		a.expect(fmt.Sprintf(lostReplaced, "42"))
		a.expect(`{"id":2,"room":"42","error":{"code":"not_member","message":"a is in room 42 with another session","retry":false}}`)
		first.redisNet.resume()
		a.expectClose(protocol.CloseReplaced)
		newer.expectSilence()
		second.expectMembers(t, "42", "b a")
	})
}

// Where only members watch, the watch ends with the take-over, also if the node learns of it only when it brings the session back.
// Nothing is left of the session then: it is closed.
func TestTakeOver_WatcherAsMember(t *testing.T) {
	for _, byAnswer := range []bool{false, true} {
		bubble(t, fmt.Sprintf("by the answer to a rejoin %v", byAnswer), func(t *testing.T) {
			first, second := startPair(t, room.Rules{}, Options{})
			first.act(t, room.Configure{Settings: room.Settings{Watch: room.WatchMembers}})
			a := first.connect(t, "a")
			for _, action := range []string{"join", "watch"} {
				a.send(fmt.Sprintf(`{"id":1,"action":%q,"room":"42"}`, action))
				a.expectEnd(`"users":[{"user":"a","seat":0}]}`)
			}
			goOn := make(chan struct{})
			if byAnswer {
				var entered chan struct{}
				entered, goOn = first.hook.holdNext()
				removeA(t, first, second)
				<-entered
				first.redisNet.holdEvents()
			}
			newer := second.connect(t, "a")
			newer.send(join42)
			newer.expectEnd(`"users":[{"user":"a","seat":0}]}`)
			close(goOn)
			a.expect(`{"event":"lost","room":"42","reason":"replaced"}`)
			a.expect(`{"event":"unwatched","room":"42","reason":"forbidden"}`)
			a.expectClose(protocol.CloseReplaced)
			newer.expectSilence()
		})
	}
}

// Two connections of a user, each in a room of its own, join each other's room at the same instant, through one node
// or two. Each room has the user afterwards, by a connection that is open and speaks for the user there.
func TestTakeOver_EachOther(t *testing.T) {
	for round := range 40 {
		synctest.Test(t, func(t *testing.T) {
			first := start(t, room.Rules{}, Options{})
			second := first
			if round%2 == 1 {
				second = first.beside(t, room.Rules{}, Options{})
			}
			one, other := first.connect(t, "a"), second.connect(t, "a")
			one.takeOver("A", false)
			other.takeOver("B", false)
			for id, c := range map[string]*testClient{"A": other, "B": one} {
				go func() { // which fails if the room of c was taken over before
					_ = c.ws.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"id":2,"action":"join","room":%q}`, id))
				}()
			}
			time.Sleep(defaultGrace + time.Second)
			first.expectMembers(t, "A", "a")
			first.expectMembers(t, "B", "a")
			for _, id := range []string{"A", "B"} {
				n := one.speaksIn(id) + other.speaksIn(id)
				redistest.ErrorIf(t, n != 1, "round %d: %d connections speak for the user in %s", round, n, id)
			}
		})
	}
}

// speaksIn returns 1 if the connection is open and that of the active session of its user in a room, and otherwise 0.
func (c *testClient) speaksIn(id string) int {
	synctest.Wait()
	if len(c.closed) > 0 {
		return 0
	}
	c.drain()
	c.send(fmt.Sprintf(`{"id":9,"action":"say","room":%q,"text":"x"}`, id))
	for synctest.Wait(); len(c.frames) > 0; {
		frame := <-c.frames
		if strings.HasPrefix(frame, `{"id":9,`) && !strings.Contains(frame, `"error"`) {
			return 1
		}
	}
	return 0
}

// With Reject a second connection is refused in the rooms that the first has, and in no other.
func TestReject_PerRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := room.Rules{Duplicate: room.Reject}
		first, second := startPair(t, rules, Options{})
		a, newer := first.connect(t, "a"), second.connect(t, "a")
		a.takeOver("A", false)
		newer.takeOver("B", false)
		newer.exchange(`{"id":2,"action":"join","room":"A"}`,
			`{"id":2,"room":"A","error":{"code":"duplicate_user","message":"a is in room A with another session","retry":false}}`)
		a.exchange(`{"id":2,"action":"join","room":"B"}`,
			`{"id":2,"room":"B","error":{"code":"duplicate_user","message":"a is in room B with another session","retry":false}}`)
		a.expectSilence()
		newer.expectSilence()
		a.exchange(`{"id":3,"action":"leave","room":"A"}`, `{"id":3,"room":"A","version":2,"count":0}`)
		newer.takeOver("A", false)
		a.expectSilence()
	})
}
