package transport

import (
	"strings"
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
