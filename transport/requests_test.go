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
	"roomd/transport/internal/session"
)

// Requests, replies and events are byte for byte as PROTOCOL.md describes them.
func TestRequest_Replies(t *testing.T) {
	s := start(t, room.Rules{Seating: room.Capacity(4)}, Options{})
	li, wang, zhang := s.connect(t, "李四"), s.connect(t, "王五"), s.connect(t, "张三")

	li.ask(`"join"`, `"version":1,"seat":0,"count":1,"settings":{"capacity":4},"users":[{"user":"李四","seat":0}]`)
	wang.send(`{"id":1,"action":"join","room":"42"}`)
	wang.expect(`{"id":1,"room":"42","version":2,"seat":1,"count":2,"settings":{"capacity":4},"users":[{"user":"李四","seat":0},{"user":"王五","seat":1}]}`)
	li.expect(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"王五","seat":1}]}`)
	zhang.send(`{"id":7,"action":"join","room":"42","seat":3}`)
	zhang.expect(`{"id":7,"room":"42","version":3,"seat":3,"count":3,"settings":{"capacity":4},"users":[{"user":"李四","seat":0},{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
	expectAll(`{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"join","user":"张三","seat":3}]}`, li, wang)
	li.exchange(`{"id":2,"action":"leave","room":"42"}`, `{"id":2,"room":"42","version":4,"count":2}`)
	zhang.expect(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"李四","seat":0,"reason":"left"}]}`)
	li.send(`{"id":3,"action":"users","room":"42"}`) // without the event of its own leave before it
	li.expect(`{"id":3,"room":"42","version":4,"count":2,"settings":{"capacity":4},"users":[{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
	li.exchange(`{"id":4,"action":"users","room":"nobody-here"}`, `{"id":4,"room":"nobody-here","epoch":"","version":0,"count":0,"users":[]}`)

	for frame, want := range map[string]string{
		`{"id":5,"action":"leave","room":"42"}`:           `{"id":5,"room":"42","error":{"code":"not_member","message":"李四 is not in room 42","retry":false}}`,
		`{"id":5,"action":"join","room":"42","seat":3}`:   `{"id":5,"room":"42","error":{"code":"seat_taken","message":"seat 3 of room 42 is taken","retry":false}}`,
		`{"id":5,"action":"join","room":"42","seat":4}`:   `{"id":5,"room":"42","error":{"code":"bad_request","message":"seat must be from 0 to 3, not 4","retry":false}}`,
		`{"id":5,"action":"join","room":"a b"}`:           `{"id":5,"room":"a b","error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not ' '","retry":false}}`,
		`{"id":5,"action":"users","room":""}`:             `{"id":5,"error":{"code":"bad_request","message":"room must be 1 to 64 characters long, not 0","retry":false}}`,
		`{"id":5,"action":"leave","room":"{42}"}`:         `{"id":5,"room":"{42}","error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not '{'","retry":false}}`,
		`{"id":5,"action":"join","room":"42","seats":1}`:  `{"id":5,"room":"42","error":{"code":"bad_request",`,
		`{"id":5,"action":"dance","room":"42"}`:           `{"id":5,"room":"42","error":{"code":"unknown_action",`,
		`{"id":5,"action":"join","room":"42","room":"1"}`: `{"id":5,"error":{"code":"bad_request",`,
		`nonsense`: `{"error":{"code":"bad_request",`,
	} {
		li.send(frame)
		_, got, err := li.ws.ReadMessage()
		redistest.ErrorIf(t, err != nil || !strings.HasPrefix(string(got), want),
			"%s: %s, %v; want %s", frame, got, err, want)
	}
	zhang.ask(`"leave"`, `"version":5,"count":1`)
	zhang.ask(`"join","seat":3,"brief":true`, `"version":6,"seat":3,"count":2`)
	zhang.send(`{"id":10,"action":"join","room":"42","brief":true}`) // the list may stand for events that wait
	zhang.expect(`{"id":10,"room":"42","version":6,"seat":3,"count":2,"settings":{"capacity":4},"users":[{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
	li.send(`{"id":6,"action":"join","room":"42"}`) // the connection is open
	li.expect(`{"id":6,"room":"42","version":7,"seat":0,"count":3,"settings":{"capacity":4},"users":[{"user":"李四","seat":0},{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
	li.send(`{"id":7,"action":"join","room":"42"}`) // again: like the first
	li.expect(`{"id":7,"room":"42","version":7,"seat":0,"count":3,"settings":{"capacity":4},"users":[{"user":"李四","seat":0},{"user":"王五","seat":1},{"user":"张三","seat":3}]}`)
	zhang.expect(`{"event":"changes","room":"42","version":7,"from":6,"changes":[{"type":"join","user":"李四","seat":0}]}`)
}

// A join that gets no subscription from Redis fails after session.WatchTimeout.
func TestJoin_WithoutSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		s.hook.unreachable.Store(true)
		a, b := s.connect(t, "a"), s.connect(t, "b")
		refused := `{"id":1,"room":"42","error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`
		a.send(join42)
		time.Sleep(session.WatchTimeout / 8)
		b.send(join42)
		time.Sleep(session.WatchTimeout*7/8 - time.Millisecond)
		a.expectSilence()
		a.expectWithin(refused, session.WatchTimeout/8+10*time.Millisecond)
		b.expectWithin(refused, 10*time.Millisecond)
		s.hook.unreachable.Store(false)
		a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	})
}

// eventOf returns the event of one version of room 42.
func eventOf(version int, changes ...string) string {
	return fmt.Sprintf(`{"event":"changes","room":"42","version":%d,"from":%d,"changes":[%s]}`, version, version-1, strings.Join(changes, ","))
}

// ask sends a request about room 42 and expects a reply. Both are without what all have.
func (v *testClient) ask(request, reply string) {
	v.t.Helper()
	v.askAbout("42", request, reply)
}

func (v *testClient) askAbout(id, request, reply string) {
	v.t.Helper()
	v.exchange(fmt.Sprintf(`{"id":7,"room":"%s","action":%s}`, id, request), fmt.Sprintf(`{"id":7,"room":"%s",%s}`, id, reply))
}

// tell is ask for a test that does not look at events: it drops those before the reply.
func (v *testClient) tell(request, reply string) {
	v.t.Helper()
	v.send(`{"id":7,"room":"42","action":` + request + `}`)
	got := ""
	for !strings.HasPrefix(got, `{"id":7`) {
		got = v.next("a reply", 100*time.Millisecond)
	}
	if want := `{"id":7,"room":"42",` + reply + `}`; got != want {
		v.t.Fatalf("got\n  %s\nwant\n  %s", got, want)
	}
}

// refused returns what a reply has that refuses a request for good.
func refused(code, message string) string {
	return fmt.Sprintf(`"error":{"code":"%s","message":%q,"retry":false}`, code, message)
}

// Members say whether they are ready, and set data of their own and of the room. Everybody sees
// that, also in lists. What changes nothing makes no version. Null removes.
func TestData_AndReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{})
		w := first.connect(t, "w")
		w.ask(`"watch"`, `"version":2,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
		version := 2
		for _, tt := range []struct{ request, change string }{
			{`"ready","value":true`, `{"type":"member","user":"a","seat":1,"ready":true}`},
			{`"ready","value":true`, ""},
			{`"set","scope":"member","data":{ "deck": [1, 2.0] }`, `{"type":"member","user":"a","seat":1,"data":{"deck":[1,2.0]}}`},
			{`"set","scope":"member","data":{"deck":[1,2.0]}`, ""},
			{`"ready","value":false`, `{"type":"member","user":"a","seat":1,"ready":false}`},
			{`"set","data":"chess"`, `{"type":"data","user":"a","data":"chess"}`},
			{`"set","scope":"room","data":"chess"`, ""},
		} {
			if tt.change != "" {
				version++
			}
			a.ask(tt.request, fmt.Sprintf(`"version":%d,"count":2`, version))
			if tt.change == "" {
				continue
			}
			expectAll(eventOf(version, tt.change), a, b, w)
		}
		for _, v := range []*testClient{a, b, w} {
			v.ask(`"users"`, `"version":6,"count":2,"data":"chess","users":[{"user":"b","seat":0},{"user":"a","seat":1,"data":{"deck":[1,2.0]}}]`)
		}
		a.ask(`"set","scope":"member","data":null`, `"version":7,"count":2`)
		a.expect(eventOf(7, `{"type":"member","user":"a","seat":1,"data":null}`))
		a.ask(`"set","data":null`, `"version":8,"count":2`)
		a.expect(eventOf(8, `{"type":"data","user":"a"}`))
		a.ask(`"users"`, `"version":8,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
		for _, request := range []string{`"ready","value":true`, `"set","data":1`, `"set","scope":"member","data":1`} {
			w.tell(request, refused("not_member", "w is not in room 42"))
		}
		a.expectSilence()
	})
}

// A set with expect replaces only what the client knows, also if the room has gone on otherwise.
// The refusal says what there is.
func TestData_CompareAndSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{})
		b.tell(`"set","data":1`, `"version":3,"count":2`)
		b.tell(`"set","scope":"member","data":"of b"`, `"version":4,"count":2`)
		a.tell(`"set","data":2,"expect":2`, `"version":4,"data":1,`+refused("conflict", "the data of room 42 has changed since version 2"))
		a.tell(`"set","data":2,"expect":5`, `"version":4,"data":1,`+refused("conflict", "room 42 is at version 4, not yet at 5"))
		a.tell(`"set","data":2,"expect":3,"epoch":"other"`, `"version":4,"data":1,`+refused("conflict", "room 42 has begun anew"))
		now, err := first.rooms.Read(t.Context(), "42")
		redistest.OK(t, err)
		a.tell(`"set","data":2,"expect":3,"epoch":"`+now.Epoch+`"`, `"version":5,"count":2`)
		a.tell(`"set","data":null,"expect":5`, `"version":6,"count":2`)
		a.tell(`"set","data":3,"expect":5`, `"version":6,`+refused("conflict", "the data of room 42 has changed since version 5"))
		a.tell(`"set","data":3,"expect":6`, `"version":7,"count":2`)
		a.tell(`"set","scope":"member","data":"x","expect":0`, `"version":8,"count":2`)
		a.tell(`"set","scope":"member","data":"y","expect":7`, `"version":8,"data":"x",`+refused("conflict", "the data of a has changed since version 7"))
		a.tell(`"set","scope":"member","data":"y","expect":8`, `"version":9,"count":2`)
		a.tell(`"set","data":3,"expect":2`, `"version":9,"data":3,`+refused("conflict", "the data of room 42 has changed since version 2"))
	})
}

// What cannot be used is refused by the name of its field, and so is what is said to somebody who is not there: nothing
// is written, and nobody hears it.
func TestRequest_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second, a, b := twoNodes(t, room.Rules{Limits: room.Limits{MemberData: 100, RoomData: 200}}, Options{Burst: 200})
		w := second.connect(t, "w")
		w.ask(`"watch"`, `"version":2,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
		text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
		nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
		const number = ", which not every JSON reader can hold; send it as a string"
		w.ask(`"say","text":"hi"`, refused("not_member", "w is not in room 42"))
		for _, tt := range []struct{ request, code, message string }{
			{`"set","data":` + text(201), "bad_request", "data must be at most 200 bytes long, not 201"},
			{`"set","data":` + nested(33), "bad_request", "data must be at most 32 levels deep, not 33"},
			{`"set","scope":"member","data":` + text(101), "bad_request", "data must be at most 100 bytes long, not 101"},
			{`"set","data":{"a":[1e999999]}`, "bad_request", "data has the number 1e999999" + number},
			{`"set","scope":"member","data":-9007199254740993`, "bad_request", "data has the number -9007199254740993" + number},
			{`"say","data":1e999999`, "bad_request", "data has the number 1e999999" + number},
			{`"set","data":1,"expect":0,"epoch":""`, "bad_request", "epoch: must not be empty; without it, any epoch will do"},
			{`"say","text":"hi","to":["w"]`, "not_member", "w is not in room 42"},
			{`"say","text":"hi","to":["b","nobody"]`, "not_member", "nobody is not in room 42"},
			{`"say","text":` + text(2051), "bad_request", "text must be at most 2048 bytes long, not 2049"},
			{`"say","data":` + text(2049), "bad_request", "data must be at most 2048 bytes long, not 2049"},
			{`"say","data":` + nested(33), "bad_request", "data must be at most 32 levels deep, not 33"},
		} {
			a.ask(tt.request, refused(tt.code, tt.message))
			time.Sleep(time.Second) // the rate
		}
		for _, request := range []string{
			`"set"`, `"set","data":{"a":1,"a":2}`, `"set","data":1,"scope":"all"`, `"set","data":1,"epoch":"e"`, `"set","data":1,"expect":-1`,
			`"ready"`, `"ready","value":1`, `"ready","value":true,"data":1`, `"set","data":"\ud800"`,
			`"say"`, `"say","text":""`, `"say","text":"hi","data":1`, `"say","text":"hi","to":["b","b"]`, `"say","text":1`,
			`"say","text":"hi","to":"b"`, `"say","text":"hi","to":[1]`, `"say","text":"hi","to":["` + strings.Repeat(`u","`, 64) + `u"]`,
		} {
			a.send(`{"id":7,"room":"42","action":` + request + `}`)
			a.expectStart(`{"id":7,"room":"42","error":{"code":"bad_request"`)
			time.Sleep(time.Second)
		}
		b.expectSilence()
		a.ask(`"set","data":`+text(200), `"version":3,"count":2`)
		a.tell(`"set","scope":"member","data":`+nested(32), `"version":4,"count":2`)
		a.tell(`"say","text":`+text(2050), `"version":5,"count":2`)
		now, err := second.rooms.Read(t.Context(), "42")
		redistest.ErrorIf(t, err != nil || now.Data != text(200) || now.Users()[1].Data != nested(32), "%+v, %v", now.Users(), err)
	})
}

// What a member has set outlives the session, until the member leaves. That of the room stays.
func TestData_OutlivesSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		a.tell(`"ready","value":true`, `"version":3,"count":2`)
		a.tell(`"set","scope":"member","data":1`, `"version":4,"count":2`)
		a.tell(`"set","data":2`, `"version":5,"count":2`)
		list := func(version int) string {
			return fmt.Sprintf(`"version":%d,"seat":1,"count":2,"data":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1,"ready":true,"data":1}]`, version)
		}
		newer := second.connect(t, "a")
		newer.tell(`"join"`, list(6))
		a = newer
		a.cut()
		b.tell(`"users"`, `"version":7,"count":2,"data":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1,"away":true,"ready":true,"data":1}]`)
		a = first.connect(t, "a")
		a.tell(`"join"`, list(8))
		a.tell(`"set","scope":"member","data":9,"expect":4`, `"version":9,"count":2`) // it has not changed since
		a.tell(`"leave"`, `"version":10,"count":1`)
		a.tell(`"join"`, `"version":11,"seat":1,"count":2,"data":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
	})
}

// A client whose session has lost its place does not know. What it asks for waits until its node
// has brought it back.
func TestRequest_DuringRejoin(t *testing.T) {
	for _, request := range []string{`"ready","value":true`, `"set","data":1`, `"set","scope":"member","data":1`, `"say","text":"hi"`} {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			var down atomic.Bool
			down.Store(true)
			first.hook.setBefore(func(_ context.Context, action room.Action) error {
				if down.Load() && room.KindOf(action) == room.KindJoin {
					return room.ErrUnavailable
				}
				return nil
			})
			removeA(t, first, second)
			b.expect(eventARemoved)
			a.send(`{"id":7,"room":"42","action":` + request + `}`)
			time.Sleep(time.Second)
			a.expectSilence()
			down.Store(false)
			a.expectWithin(eventABackIn, session.SeatWait)
			a.expect(`{"id":7,"room":"42","version":5,"count":2}`)
			b.expect(eventARejoined)
			b.expectStart(`{"event":"changes","room":"42","version":5,"from":4,"changes":[{"type":"`)
			down.Store(true)
			removeA(t, first, second)
			time.Sleep(time.Second)
			a.drain()
			a.send(`{"id":7,"room":"42","action":` + request + `}`)
			a.expectWithin(`{"id":7,"room":"42","error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`, 2*session.SeatWait)
		})
	}
}

// Data and texts count by their bytes: of 20 events of 1 kB a client that does not read for a while
// gets those that fit its queue, and a snapshot in place of the others.
func TestQueue_DataAndTexts(t *testing.T) {
	for _, request := range []string{`"say","text":"%[1]s%[2]d"`, `"say","data":"%[1]s%[2]d"`, `"set","data":"%[1]s%[2]d"`, `"set","scope":"member","data":"%[1]s%[2]d"`} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, room.Rules{}, Options{MaxQueue: 10_000, Rate: -1})
			a, b := s.connectIdle(t, "a"), s.connect(t, "b")
			a.exchange(`{"id":7,"room":"42","action":"watch"}`, `{"id":7,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
			b.send(join42)
			slow, _ := s.conns.find(s.session(t, "a"))
			kept := 0
			for i := range 20 {
				b.send(`{"id":7,"room":"42","action":` + fmt.Sprintf(request, strings.Repeat("x", 1000), i) + `}`)
				time.Sleep(10 * time.Millisecond) // in all less than a write may take
				kept = max(kept, slow.out.Kept())
			}
			redistest.ErrorIf(t, kept < 6_000 || kept > 10_500,
				"%s: %d bytes were kept for the client", request, kept)
			reading := a.reading()
			synctest.Wait()
			events, last := len(reading.frames), ""
			for len(reading.frames) > 0 {
				last = <-reading.frames
			}
			redistest.ErrorIf(t, events < 2 || !strings.HasPrefix(last, `{"event":"snapshot","room":"42","version":21`),
				"%s: %d events, the last one %.100s", request, events, last)
			b.expectOpen()
		})
	}
}

// expectOpen drops what has come, and expects that the connection is open.
func (v *testClient) expectOpen() {
	v.t.Helper()
	synctest.Wait()
	v.drain()
	v.expectSilence()
}
