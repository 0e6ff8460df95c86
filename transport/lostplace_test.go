package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
)

// A join that finds that its session has lost the place is refused behind the loss, which says who took the user out.
func TestJoin_RefusedToWhoWasTakenOut(t *testing.T) {
	const text = `{"event":"lost","room":"42","reason":"kicked","text":"loud"}`
	for name, tt := range map[string]struct {
		do   []room.Action
		join string
		want []string
	}{
		"banned": {
			[]room.Action{room.Kick{User: "a", Text: "loud", Until: time.Now().Add(100 * 365 * 24 * time.Hour).UnixMilli()}}, join42,
			[]string{text, "banned"},
		},
		"no such seat": {
			[]room.Action{room.Kick{User: "a", Text: "loud"}, room.Configure{Settings: room.Settings{Capacity: 2}}},
			`{"id":1,"action":"join","room":"42","seat":2}`, []string{text, "bad_request"},
		},
		"the seat is taken": {
			[]room.Action{room.Kick{User: "a", Text: "loud"}}, `{"id":1,"action":"join","room":"42","seat":0}`, []string{text, "seat_taken"},
		},
		"closed": {[]room.Action{room.Close{}}, join42, []string{`{"event":"lost","room":"42","reason":"closed"}`, "closed"}},
	} {
		bubble(t, name, func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			first.redisNet.holdEvents()
			for _, action := range tt.do {
				second.actIn(t, "42", action)
			}
			a.exchange(tt.join, tt.want[0])
			redistest.Equal(t, "refused with", codeOf(t, a.next(tt.want[1], time.Second)), tt.want[1])
			first.redisNet.resume()
			expectQuiet(a)
		})
	}
}

// codeOf returns the code of a refusal.
func codeOf(t *testing.T, frame string) string {
	t.Helper()
	var reply struct{ Error struct{ Code string } }
	redistest.OK(t, json.Unmarshal([]byte(frame), &reply))
	return reply.Error.Code
}

// A member is kicked with a ban just before its node brings it back after a failure: it hears that it was kicked, and why.
func TestKick_WithABanOfWhoIsBroughtBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		open := first.hook.gate(room.KindJoin, func() {})
		removeA(t, first, second)
		second.actIn(t, "42", room.Reserve{Session: "party", Users: []string{"a"}})
		second.actIn(t, "42", room.Kick{User: "a", Text: "loud", Until: time.Now().Add(time.Hour).UnixMilli()})
		open()
		a.expectWithin(`{"event":"lost","room":"42","reason":"kicked","text":"loud"}`, time.Second)
		expectQuiet(a)
	})
}

// A user is moved into a room in which it is, too, and which is closed while it asks for something there: it hears of
// the loss once.
func TestMove_IntoARoomThatIsClosed(t *testing.T) {
	for _, watches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
			a.askAbout("T", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
			if watches {
				a.askAbout("T", `"watch"`, `"version":1,"count":1,"users":[{"user":"a","seat":0}]`)
			}
			open := first.hook.gate(room.KindJoin, func() {})
			a.send(`{"id":9,"room":"T","action":"join"}`)
			synctest.Wait()
			second.moveTo(t, "42", "T", "a")
			a.expect(lostMoved)
			second.actIn(t, "T", room.Close{})
			open()
			a.expectWithin(`{"event":"lost","room":"T","reason":"closed"}`, time.Second)
			a.expect(`{"id":9,"room":"T","error":{"code":"closed","message":"room T is closed","retry":false}}`)
			if watches {
				a.expect(`{"event":"changes","room":"T","version":2,"from":1,"changes":[{"type":"leave","user":"a","seat":0,"reason":"closed"},{"type":"settings","settings":{"capacity":0,"closed":true}}]}`)
			}
			expectQuiet(a)
		})
	}
}

// A member asks to watch, and is kicked while that is done: it hears that, and watches.
func TestWatch_WhileTheMemberIsKicked(t *testing.T) {
	server, reads := start(t, room.Rules{}, Options{}), 0
	server.hook.reading = func(ctx context.Context, _ string) error {
		if reads++; reads != 2 {
			return nil
		}
		_, err := server.rooms.Do(ctx, "42", room.Kick{User: "a", Text: "loud"})
		return err
	}
	a := server.connect(t, "a")
	a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.exchange(`{"id":2,"action":"watch","room":"42"}`, `{"event":"lost","room":"42","reason":"kicked","text":"loud"}`)
	a.expect(`{"id":2,"room":"42","version":2,"count":0,"users":[]}`)
	_, err := server.rooms.Do(t.Context(), "42", room.Join{User: "b", Session: "s"})
	redistest.OK(t, err)
	a.expect(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"join","user":"b","seat":0}]}`)
}

// A member who is being brought back asks for the list: the reply waits for that, and without it
// is a refusal. A request to watch is treated the same.
func TestList_DuringRejoin(t *testing.T) {
	for _, action := range []string{"users", "watch"} {
		for _, back := range []bool{true, false} {
			bubble(t, fmt.Sprintf("%s, back %v", action, back), func(t *testing.T) {
				first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
				first.hook.setBefore(func(context.Context, room.Action) error { return room.ErrBusy })
				removeA(t, first, second)
				synctest.Wait()
				a.send(fmt.Sprintf(`{"id":3,"action":%q,"room":"42"}`, action))
				time.Sleep(500 * time.Millisecond) // the next attempt comes long before session.SeatWait has passed
				a.expectSilence()
				if !back {
					a.expectWithin(`{"id":3,"room":"42","error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`, session.SeatWait)
					return
				}
				first.hook.setBefore(nil)
				a.expectWithin(`{"id":3,"room":"42","version":4,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`, session.SeatWait)
				a.expectSilence() // the reply has what a snapshot would have
			})
		}
	}
}

// A list lacks a member of whose removal no event has come. The server finds out by itself.
func TestList_BeforeTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{})
		first.redis.FlushAll(t.Context())
		a.send(users42)
		frame := a.next("a reply", time.Minute)
		redistest.ErrorIf(t, !strings.Contains(frame, `{"user":"a","seat":1}`), "a got %s", frame)
		time.Sleep(time.Minute)
		for name, v := range map[string]*testClient{"a": a, "b": b} {
			for len(v.frames) > 0 {
				if frame := <-v.frames; !strings.Contains(frame, fmt.Sprintf(`{"user":%q`, name)) && strings.Contains(frame, "snapshot") {
					t.Errorf("%s got %s", name, frame)
				}
			}
		}
	})
}

// undoneRooms undo joins of a's session, as often as left says, as if that were in the same commit.
type undoneRooms struct {
	Rooms
	session string
	left    atomic.Int64
}

func (r *undoneRooms) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	result, err := r.Rooms.Do(ctx, id, a)
	if room.KindOf(a) == room.KindJoin && r.left.Add(-1) >= 0 {
		undone, _ := r.Rooms.Do(ctx, id, room.Leave{User: "a", Session: r.session, Reason: "node"})
		result.Snapshot = undone.Snapshot
	}
	return result, err
}

// So it is with the join of a client, and with that of a rejoin, which is tried again.
func TestJoin_UndoneTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		undone := &undoneRooms{Rooms: first.hook.Rooms, session: first.session(t, "a")}
		first.hook.Rooms = undone
		undone.left.Store(2)
		removeA(t, first, second) // version 3
		a.expectWithin(strings.Replace(eventABackIn, `"version":4`, `"version":8`, 1), time.Second)
		undone.left.Store(1)
		a.send(join42)
		a.expect(`{"id":1,"room":"42","error":{"code":"unknown","message":"it may or may not have been written; ask for users","retry":false}}`)
		a.expectWithin(strings.Replace(eventABackIn, `"version":4`, `"version":10`, 1), time.Second)
		a.exchange(users42, `{"id":3,"room":"42","version":10,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
	})
}

// A node has a new name, and cannot write to the room for a while: its members may have lost their
// places. They see what others do when it is known that they have not, and no snapshot.
func TestEvents_WaitForConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.hook.setBefore(func(context.Context, room.Action) error { return room.ErrBusy })
		before := first.rooms.Node()
		first.redis.Del(t.Context(), "Node:"+before)
		time.Sleep(2 * time.Second)
		redistest.FatalIf(t, first.rooms.Node() == before, "the node kept its name")
		second.connect(t, "c").send(join42)
		time.Sleep(time.Second)
		a.expectSilence()
		first.hook.setBefore(nil)
		a.expectWithin(`{"event":"changes","room":"42","version":4,"from":2,"changes":[{"type":"join","user":"c","seat":2}]}`, session.LastPause)
		a.expectSilence()
	})
}

// A client sends a join, ends the connection, and comes back through another one before the server gets to the join:
// that does not take the seat from the newer session.
func TestJoin_BehindWhichTheClientHasClosed(t *testing.T) {
	for how, end := range map[string]func(c *rawClient){
		"close frame":       func(c *rawClient) { c.write(rawFrame(0x88, "\x03\xe8")) },
		"far close frame":   func(c *rawClient) { c.write(rawFrame(0x81, string(make([]byte, 3000))), rawFrame(0x88, "\x03\xe8")) },
		"end of connection": func(c *rawClient) { _ = c.raw.Close() },
		"reset":             func(c *rawClient) { _ = c.raw.(*net.TCPConn).SetLinger(0); _ = c.raw.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			server, begun := start(t, room.Rules{}, Options{}), make(chan struct{}, 9)
			open := server.hook.gate(room.KindMessage, func() { begun <- struct{}{} })

			older := server.connectRawAs(t, "a")
			older.write(rawFrame(0x81, `{"id":1,"action":"say","room":"42","text":"hello"}`))
			redistest.Receive(t, begun, "the first request")
			older.write(rawFrame(0x81, `{"id":2,"action":"join","room":"42"}`)) // is read after that
			end(older)
			newer := server.connect(t, "a")
			newer.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
			open()
			redistest.Until(t, "the older connection has ended", func() bool { return server.Connections() == 1 })
			now, err := server.rooms.Read(context.Background(), "42")
			redistest.ErrorIf(t, err != nil || now.Version != 1, "the room is at version %d (%v)", now.Version, err)
			newer.ping()
		})
	}
}

// A join that the client sends and then closes is done where it takes no seat from another session.
func TestJoin_BeforeTheClientHasClosed(t *testing.T) {
	server := start(t, room.Rules{}, Options{})
	c := server.connectRawAs(t, "a")
	c.write(rawFrame(0x81, join42) + rawFrame(0x88, "\x03\xe8"))
	redistest.Equal(t, "got", c.readAll(), "1 close 1000")
}
