package transport

import (
	"testing"

	"roomd/room"
)

const (
	watch42   = `{"id":4,"action":"watch","room":"42"}`
	unwatch42 = `{"id":5,"action":"unwatch","room":"42"}`
)

// A watcher gets the events behind the list in its reply, and is not a member.
func TestWatch_Events(t *testing.T) {
	s := start(t, room.Rules{}, Options{})
	a, w := s.connect(t, "a"), s.connect(t, "w")
	w.exchange(watch42, `{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
	a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	w.expect(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"a","seat":0}]}`)
	w.exchange(watch42, `{"id":4,"room":"42","version":1,"count":1,"users":[{"user":"a","seat":0}]}`) // again: like the first
	w.exchange(leave42, `{"id":2,"room":"42","error":{"code":"not_member","message":"w is not in room 42","retry":false}}`)
	a.exchange(leave42, `{"id":2,"room":"42","version":2,"count":0}`)
	w.expect(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"leave","user":"a","seat":0,"reason":"left"}]}`)
	w.exchange(unwatch42, `{"id":5,"room":"42","version":2,"count":0}`)
	w.exchange(unwatch42, `{"id":5,"room":"42","version":2,"count":0}`)
	a.exchange(join42, `{"id":1,"room":"42","version":3,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	w.exchange(users42, `{"id":3,"room":"42","version":3,"count":1,"users":[{"user":"a","seat":0}]}`) // and no event before it
}

// A member who unwatches gets events as a member, and a watcher who leaves gets events as a
// watcher.
func TestWatch_Member(t *testing.T) {
	s := start(t, room.Rules{}, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.exchange(watch42, `{"id":4,"room":"42","version":1,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.exchange(unwatch42, `{"id":5,"room":"42","version":1,"count":1}`)
	b.exchange(join42, `{"id":1,"room":"42","version":2,"seat":1,"count":2,"users":[{"user":"a","seat":0},{"user":"b","seat":1}]}`)
	a.expect(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"b","seat":1}]}`)
	b.exchange(watch42, `{"id":4,"room":"42","version":2,"count":2,"users":[{"user":"a","seat":0},{"user":"b","seat":1}]}`)
	b.send(leave42)
	own := `{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"b","seat":1,"reason":"left"}]}`
	b.expect(`{"id":2,"room":"42","version":3,"count":1}`)
	b.expect(own) // the reply has no list, so no event is left out
	a.expect(own)
	a.exchange(leave42, `{"id":2,"room":"42","version":4,"count":0}`)
	b.expect(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"a","seat":0,"reason":"left"}]}`)
}

func TestWatch_MaxRooms(t *testing.T) {
	s := start(t, room.Rules{}, Options{MaxRooms: 2})
	a := s.connect(t, "a")
	a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.exchange(`{"id":2,"action":"watch","room":"43"}`, `{"id":2,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
	for _, action := range []string{"join", "watch"} {
		a.send(`{"id":3,"action":"` + action + `","room":"44"}`)
		a.expect(`{"id":3,"room":"44","error":{"code":"bad_request","message":"room is one too many: a connection can be in, or watch, 2 rooms","retry":false}}`)
	}
	a.askAbout("43", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`) // is one of the two
	a.exchange(`{"id":5,"action":"leave","room":"42"}`, `{"id":5,"room":"42","version":2,"count":0}`)
	a.send(`{"id":6,"action":"join","room":"a b"}`) // a refused room does not count
	a.expect(`{"id":6,"room":"a b","error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not ' '","retry":false}}`)
	a.exchange(`{"id":7,"action":"join","room":"44"}`, `{"id":7,"room":"44","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
}
