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
	w.send(watch42)
	w.expect(`{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
	a.send(join42)
	a.expect(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	w.expect(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"a","seat":0}]}`)
	w.send(watch42) // again: like the first
	w.expect(`{"id":4,"room":"42","version":1,"count":1,"users":[{"user":"a","seat":0}]}`)
	w.send(leave42)
	w.expect(`{"id":2,"room":"42","error":{"code":"not_member","message":"w is not in room 42","retry":false}}`)
	a.send(leave42)
	a.expect(`{"id":2,"room":"42","version":2,"count":0}`)
	w.expect(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"leave","user":"a","seat":0,"reason":"left"}]}`)
	w.send(unwatch42)
	w.expect(`{"id":5,"room":"42","version":2,"count":0}`)
	w.send(unwatch42)
	w.expect(`{"id":5,"room":"42","version":2,"count":0}`)
	a.send(join42)
	a.expect(`{"id":1,"room":"42","version":3,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	w.send(users42) // and no event before it
	w.expect(`{"id":3,"room":"42","version":3,"count":1,"users":[{"user":"a","seat":0}]}`)
}

// A member who unwatches gets events as a member, and a watcher who leaves gets events as a
// watcher.
func TestWatch_Member(t *testing.T) {
	s := start(t, room.Rules{}, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.send(join42)
	a.expect(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.send(watch42)
	a.expect(`{"id":4,"room":"42","version":1,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.send(unwatch42)
	a.expect(`{"id":5,"room":"42","version":1,"count":1}`)
	b.send(join42)
	b.expect(`{"id":1,"room":"42","version":2,"seat":1,"count":2,"users":[{"user":"a","seat":0},{"user":"b","seat":1}]}`)
	a.expect(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"b","seat":1}]}`)
	b.send(watch42)
	b.expect(`{"id":4,"room":"42","version":2,"count":2,"users":[{"user":"a","seat":0},{"user":"b","seat":1}]}`)
	b.send(leave42)
	own := `{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"b","seat":1,"reason":"left"}]}`
	b.expect(`{"id":2,"room":"42","version":3,"count":1}`)
	b.expect(own) // the reply has no list, so no event is left out
	a.expect(own)
	a.send(leave42)
	a.expect(`{"id":2,"room":"42","version":4,"count":0}`)
	b.expect(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"a","seat":0,"reason":"left"}]}`)
}

func TestWatch_MaxRooms(t *testing.T) {
	s := start(t, room.Rules{}, Options{MaxRooms: 2})
	a := s.connect(t, "a")
	a.send(join42)
	a.expect(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.send(`{"id":2,"action":"watch","room":"43"}`)
	a.expect(`{"id":2,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
	for _, action := range []string{"join", "watch"} {
		a.send(`{"id":3,"action":"` + action + `","room":"44"}`)
		a.expect(`{"id":3,"room":"44","error":{"code":"bad_request","message":"room is one too many: a connection can be in, or watch, 2 rooms","retry":false}}`)
	}
	a.send(`{"id":4,"action":"join","room":"43"}`) // is one of the two
	a.expect(`{"id":4,"room":"43","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.send(`{"id":5,"action":"leave","room":"42"}`)
	a.expect(`{"id":5,"room":"42","version":2,"count":0}`)
	a.send(`{"id":6,"action":"join","room":"a b"}`) // a refused room does not count
	a.expect(`{"id":6,"room":"a b","error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not ' '","retry":false}}`)
	a.send(`{"id":7,"action":"join","room":"44"}`)
	a.expect(`{"id":7,"room":"44","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
}
