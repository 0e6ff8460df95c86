package transport

import (
	"testing"

	"roomd/room"
)

const (
	watchOf42   = `{"id":4,"action":"watch","room":"42"}`
	unwatchOf42 = `{"id":5,"action":"unwatch","room":"42"}`
)

// Who watches hears what happens behind the list of the reply, without being in.
func TestWatch(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{})
	a, w := s.connect(t, "a"), s.connect(t, "w")
	w.say(watchOf42)
	w.hear(`{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
	a.say(joinOf42)
	a.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	w.hear(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"a","seat":0}]}`)
	w.say(watchOf42) // again: like the first
	w.hear(`{"id":4,"room":"42","version":1,"count":1,"users":[{"user":"a","seat":0}]}`)
	w.say(leaveOf42)
	w.hear(`{"id":2,"error":{"code":"not_member","message":"w is not in room 42","retry":false}}`)
	a.say(leaveOf42)
	a.hear(`{"id":2,"room":"42","version":2,"count":0}`)
	w.hear(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"leave","user":"a","seat":0}]}`)
	w.say(unwatchOf42)
	w.hear(`{"id":5,"room":"42","version":2,"count":0}`)
	w.say(unwatchOf42)
	w.hear(`{"id":5,"room":"42","version":2,"count":0}`)
	a.say(joinOf42)
	a.hear(`{"id":1,"room":"42","version":3,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	w.say(usersOf42) // and no event before it
	w.hear(`{"id":3,"room":"42","version":3,"count":1,"users":[{"user":"a","seat":0}]}`)
}

// A member who unwatches goes on hearing as a member, and one who leaves as one who
// watches.
func TestMemberAndWatcher(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{})
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.say(joinOf42)
	a.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.say(watchOf42)
	a.hear(`{"id":4,"room":"42","version":1,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.say(unwatchOf42)
	a.hear(`{"id":5,"room":"42","version":1,"count":1}`)
	b.say(joinOf42)
	b.hear(`{"id":1,"room":"42","version":2,"seat":1,"count":2,"users":[{"user":"a","seat":0},{"user":"b","seat":1}]}`)
	a.hear(`{"event":"changes","room":"42","version":2,"from":1,"changes":[{"type":"join","user":"b","seat":1}]}`)
	b.say(watchOf42)
	b.hear(`{"id":4,"room":"42","version":2,"count":2,"users":[{"user":"a","seat":0},{"user":"b","seat":1}]}`)
	b.say(leaveOf42)
	own := `{"event":"changes","room":"42","version":3,"from":2,"changes":[{"type":"leave","user":"b","seat":1}]}`
	b.hear(`{"id":2,"room":"42","version":3,"count":1}`)
	b.hear(own) // its reply has no list: the events go on from where they were
	a.hear(own)
	a.say(leaveOf42)
	a.hear(`{"id":2,"room":"42","version":4,"count":0}`)
	b.hear(`{"event":"changes","room":"42","version":4,"from":3,"changes":[{"type":"leave","user":"a","seat":0}]}`)
}

func TestMaxRooms(t *testing.T) {
	s := startServer(t, room.Rules{}, Options{MaxRooms: 2})
	a := s.connect(t, "a")
	a.say(joinOf42)
	a.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.say(`{"id":2,"action":"watch","room":"43"}`)
	a.hear(`{"id":2,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
	for _, action := range []string{"join", "watch"} {
		a.say(`{"id":3,"action":"` + action + `","room":"44"}`)
		a.hear(`{"id":3,"error":{"code":"bad_request","message":"room is one too many: a connection can be in, or watch, 2 rooms","retry":false}}`)
	}
	a.say(`{"id":4,"action":"join","room":"43"}`) // is one of the two
	a.hear(`{"id":4,"room":"43","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.say(`{"id":5,"action":"leave","room":"42"}`)
	a.hear(`{"id":5,"room":"42","version":2,"count":0}`)
	a.say(`{"id":6,"action":"join","room":"a b"}`) // refused ones do not count
	a.hear(`{"id":6,"error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not ' '","retry":false}}`)
	a.say(`{"id":7,"action":"join","room":"44"}`)
	a.hear(`{"id":7,"room":"44","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
}
