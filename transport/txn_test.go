package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/transport/auth"
)

// A txn is for admins whose token is for the room. It is one version for everybody, of which each is shown what is for them, and
// its timers fire; one that is refused does nothing, and its timers do not fire.
func TestTxn_OneVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		a, boss := s.connectAs(t, "a", auth.RolePlayer), s.connectAs(t, "boss", auth.RoleAdmin)
		other := s.with(t, auth.Identity{User: "admin of other rooms", Role: auth.RoleAdmin, Rooms: []string{"x"}, Watch: []string{"*"}})
		const users = `"users":[{"user":"a","seat":0}]`
		boss.ask(`"txn","actions":[{"action":"set","data":1}]`, refused("not_member", "room 42 has not begun"))
		a.tell(`"join"`, `"version":1,"seat":0,"count":1,`+users)
		other.tell(`"watch"`, `"version":1,"count":1,`+users)
		for _, tt := range []struct{ parts, want string }{
			{`{"action":"set","data":1},{"action":"set","scope":"private","user":"b","data":1}`, refused("not_member", "b is not in room 42")},
			{`{"action":"timer","name":"soon","in":1},{"action":"timer","name":".","in":1}`, refused("bad_request", "actions[1].name must be 1 to 32 of A-Z a-z 0-9 . _ -")},
			{`{"action":"timer","name":"soon","in":1},{"action":"kick","user":"b"}`, refused("not_member", "b is not in room 42")},
			{`{"action":"ready","value":true}`, refused("bad_request", "actions[0]: action: ready is no part of a txn")},
		} {
			boss.ask(`"txn","actions":[`+tt.parts+`]`, tt.want)
		}
		other.ask(`"txn","actions":[{"action":"set","data":1}]`, refused("forbidden", "the token does not allow room 42"))
		a.ask(`"txn","actions":[{"action":"say","text":"x"}]`, refused("forbidden", "a txn is for admins, and the role of the token is another one"))
		time.Sleep(time.Second) // nothing fires
		boss.ask(`"txn","expect":1,"actions":[{"action":"set","data":1},{"action":"set","scope":"private","user":"a","data":["AS"]},
			{"action":"timer","name":"turn","in":50,"then":{"data":2}},{"action":"say","to":["a"],"text":"go"}]`, `"version":2,"count":1`)
		const private = `{"type":"private","user":"a","seat":0,"data":["AS"]},`
		event := func(private, said string) string {
			return eventOf(2, `{"type":"data","user":"boss","data":1},`+private+`{"type":"countdown","user":"boss","name":"turn","in":50}`+said)
		}
		a.expect(event(private, `,{"type":"message","user":"boss","text":"go","to":["a"]}`))
		other.expect(event("", ""))
		for _, c := range []*testClient{a, other} {
			c.expectWithin(eventOf(3, `{"type":"timer","name":"turn"}`, `{"type":"data","data":2}`), 150*time.Millisecond)
		}
	})
}

// What is said to nobody is heard by the admins who watch, who get it also when they come back; and by who said it.
func TestSay_ToAdmins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		a, b, boss := s.connectAs(t, "a", auth.RolePlayer), s.connectAs(t, "b", auth.RolePlayer), s.connectAs(t, "boss", auth.RoleAdmin)
		a.tell(`"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
		const users = `"users":[{"user":"a","seat":0},{"user":"b","seat":1}]`
		b.tell(`"join"`, `"version":2,"seat":1,"count":2,`+users)
		a.next("that b came", time.Second) // else one frame may have the next change, too
		const settings = `"settings":{"capacity":0,"history":9},`
		boss.ask(`"configure","settings":{"history":9}`, `"version":3,"count":2`)
		boss.ask(`"watch"`, `"version":3,"count":2,`+settings+users)
		for _, c := range []*testClient{a, b} {
			c.next("the settings", time.Second)
		}
		a.ask(`"say","data":"I play","to":[]`, `"version":4,"count":2`)
		said := eventOf(4, `{"type":"message","user":"a","data":"I play","to":[]}`)
		boss.expect(said)
		expectAll(eventOf(4), a, b)
		const kept = `"said":[{"version":4,"user":"a","data":"I play","to":[]}],`
		again := s.connectAs(t, "boss", auth.RoleAdmin)
		again.ask(`"watch","expect":3`, `"version":4,"count":2,`+settings+kept+users)
		again = s.connectAs(t, "boss", auth.RoleAdmin)
		again.ask(`"watch","expect":4`, `"version":4,"count":2,`+settings+users)
		again.ask(`"watch","history":9`, `"version":4,"count":2,`+settings+users) // it watches already
		again = s.connectAs(t, "c", auth.RolePlayer)
		again.ask(`"watch","history":9`, `"version":4,"count":2,`+settings+users)
	})
}
