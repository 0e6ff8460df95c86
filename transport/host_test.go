package transport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

const hosted = `"settings":{"capacity":0,"host":"longest"}`

// hostedRoom starts two nodes with the member a, who is the host of room 42, on the first, and b on the second.
func hostedRoom(t *testing.T) (first, second *testNode, a, b *testClient) {
	t.Helper()
	first = start(t, room.Rules{}, Options{})
	second = first.beside(t, room.Rules{}, Options{})
	first.act(t, room.Configure{Settings: room.Settings{Host: room.HostLongest}})
	a, b = first.connect(t, "a"), second.connect(t, "b")
	a.ask(`"join"`, `"version":2,"seat":0,"count":1,`+hosted+`,"host":"a","users":[{"user":"a","seat":0}]`)
	time.Sleep(time.Millisecond)
	b.ask(`"join"`, `"version":3,"seat":1,"count":2,`+hosted+`,"host":"a","users":[{"user":"a","seat":0},{"user":"b","seat":1}]`)
	a.expect(eventOf(3, `{"type":"join","user":"b","seat":1}`))
	return first, second, a, b
}

// The host does what admins do, through the node that it is on. All hear in the version of a leave who is the host then.
func TestHost_Does(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, a, b := hostedRoom(t)
		refusal := refused("forbidden", "only the host of room 42 and admins may do that, and b is not the host")
		b.ask(`"kick","user":"a"`, refusal)
		b.ask(`"close"`, refusal)
		b.ask(`"configure","settings":{"host":"longest"}`, refusal)
		a.ask(`"configure","settings":{"capacity":3,"host":"longest","data":"admins"}`, refused("forbidden", "settings.data: only admins may change it, and so the host has to send it as it is"))
		a.ask(`"configure","settings":{"capacity":3,"host":"last"}`, refused("bad_request", `settings.host: must be "none" or "longest", not "last"`))
		a.ask(`"configure","settings":{"capacity":3,"closed":true,"host":"longest"},"expect":3`, `"version":4,"count":2`)
		change := eventOf(4, `{"type":"settings","settings":{"capacity":3,"closed":true,"host":"longest"}}`)
		a.expect(change)
		b.expect(change)
		a.ask(`"leave"`, `"version":5,"count":1`)
		b.expect(eventOf(5, `{"type":"leave","user":"a","seat":0,"reason":"left"}`, `{"type":"host","user":"b"}`))
		a.ask(`"kick","user":"b"`, refused("not_member", "a is not in room 42"))
		b.ask(`"kick","user":"a","ban":60`, `"version":6,"count":1`)
		b.expect(eventOf(6))
		a.ask(`"users"`, refused("banned", "a is banned from room 42 for another 60 s"))
		b.send(`{"id":7,"action":"close","room":"42"}`)
		b.expect(`{"event":"lost","room":"42","reason":"closed"}`)
		b.expect(`{"id":7,"room":"42","version":7,"count":0}`)
	})
}

// A host whose connection is lost stays the host until the grace is over. Another session of the host's that is not
// the member does nothing.
func TestHost_Away(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := hostedRoom(t)
		second.connect(t, "a").ask(`"kick","user":"b"`, refused("not_member", "a is in room 42 with another session"))
		a.cut()
		b.expect(eventOf(4, `{"type":"away","user":"a","seat":0}`))
		b.ask(`"kick","user":"a"`, refused("forbidden", "only the host of room 42 and admins may do that, and b is not the host"))
		a = first.connect(t, "a")
		a.ask(`"join"`, `"version":5,"seat":0,"count":2,`+hosted+`,"host":"a","users":[{"user":"a","seat":0},{"user":"b","seat":1}]`)
		b.expect(eventOf(5, `{"type":"back","user":"a","seat":0}`))
		a.cut()
		b.expect(eventOf(6, `{"type":"away","user":"a","seat":0}`))
		time.Sleep(defaultGrace)
		b.expect(eventOf(7, `{"type":"leave","user":"a","seat":0,"reason":"timeout"}`, `{"type":"host","user":"b"}`))
		b.ask(`"configure","settings":{"capacity":9,"host":"longest"}`, `"version":8,"count":1`)
	})
}

// The room decides: a host who has lost the role before the action is done is refused, although its node, which has not
// heard of that, had let it begin.
func TestHost_LostMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := hostedRoom(t)
		first.hook.setBefore(func(ctx context.Context, action room.Action) error {
			if _, kick := action.(room.Kick); kick {
				first.hook.setBefore(nil)
				for _, action := range []room.Action{room.Leave{User: "a", Session: first.session(t, "a")}, room.Join{User: "a", Session: first.session(t, "a")}} {
					_, err := second.rooms.Do(ctx, "42", action)
					redistest.OK(t, err)
				}
			}
			return nil
		})
		a.send(`{"id":7,"action":"kick","room":"42","user":"b"}`)
		for {
			if got := a.next("the refusal", time.Second); got == `{"id":7,"room":"42",`+refused("forbidden", "only the host of room 42 and admins may do that, and a is not the host")+`}` {
				break
			}
		}
		second.expectMembers(t, "42", "a b")
	})
}

// A move takes the role away in the one room, and gives it in the other.
func TestHost_Moves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := hostedRoom(t)
		first.actIn(t, "43", room.Configure{Settings: room.Settings{Host: room.HostLongest}})
		_, _, err := first.Move(t.Context(), "42", "43", "a")
		redistest.OK(t, err)
		a.expect(`{"event":"lost","room":"42","reason":"moved","to":"43"}`)
		a.expect(`{"event":"snapshot","room":"43","version":3,"count":1,` + hosted + `,"host":"a","users":[{"user":"a","seat":0}]}`)
		b.expect(eventOf(4, `{"type":"leave","user":"a","seat":0,"reason":"moved","to":"43"}`, `{"type":"host","user":"b"}`))
	})
}
