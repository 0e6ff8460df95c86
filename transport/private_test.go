package transport

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

// Private data come to their member, by all of its sessions, and to admins of the room; others hear of a version.
func TestPrivate_WhoIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		a, b := s.connectAs(t, "a", auth.RolePlayer), s.connectAs(t, "b", auth.RolePlayer)
		boss := s.connectAs(t, "boss", auth.RoleAdmin)
		watches := s.with(t, auth.Identity{User: "admin of other rooms", Role: auth.RoleAdmin, Rooms: []string{"x"}, Watch: []string{"*"}})
		const users = `"users":[{"user":"a","seat":0},{"user":"b","seat":1}]`
		list := func(version int, private string) string {
			return fmt.Sprintf(`"version":%d,"count":2,%s%s`, version, private, users)
		}
		a.tell(`"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
		b.tell(`"join"`, `"version":2,"seat":1,"count":2,`+users)
		again := s.connectAs(t, "a", auth.RolePlayer)
		for _, v := range []*testClient{boss, watches, again} {
			v.tell(`"watch"`, list(2, ""))
		}
		a.expect(eventOf(2, `{"type":"join","user":"b","seat":1}`))
		hear := func(version int, user string, seat int, data string) {
			t.Helper()
			all := eventOf(version, fmt.Sprintf(`{"type":"private","user":%q,"seat":%d,"data":%s}`, user, seat, data))
			nothing := eventOf(version)
			for _, v := range []struct {
				*testClient
				sees string
			}{{a, "a"}, {again, "a"}, {b, "b"}, {boss, user}, {watches, ""}} {
				v.expect(map[bool]string{true: all, false: nothing}[v.sees == user])
			}
		}
		a.ask(`"set","scope":"private","data":{ "cards": [1] }`, `"version":3,"count":2`)
		hear(3, "a", 0, `{"cards":[1]}`)
		boss.ask(`"set","scope":"private","user":"b","data":["AS"]`, `"version":4,"count":2`)
		hear(4, "b", 1, `["AS"]`)
		s.act(t, room.Deal{Hands: []room.Hand{{User: "a", Data: "5"}}})
		hear(5, "a", 0, `5`)
		for _, v := range []struct {
			*testClient
			private string
		}{{a, `"private":{"a":5},`}, {again, `"private":{"a":5},`}, {b, `"private":{"b":["AS"]},`}, {boss, `"private":{"a":5,"b":["AS"]},`}, {watches, ""}} {
			v.ask(`"users"`, list(5, v.private))
			v.ask(`"watch"`, list(5, v.private))
		}
		// Compare and set tells what is there to who may see it.
		a.ask(`"set","scope":"private","data":6,"expect":4`, `"version":5,"data":5,`+refused("conflict", "the private data of a has changed since version 4"))
		boss.ask(`"set","scope":"private","user":"b","data":6,"expect":3`, `"version":5,"data":["AS"],`+refused("conflict", "the private data of b has changed since version 3"))
		b.ask(`"set","scope":"private","data":null,"expect":5`, `"version":6,"count":2`)
		hear(6, "b", 1, `null`)
		// Others are refused, whatever they name.
		forbidden := refused("forbidden", "setting the private data of others is for admins, and the role of the token is another one")
		b.ask(`"set","scope":"private","user":"a","data":6`, forbidden)
		b.ask(`"set","scope":"private","user":"b","data":6`, forbidden)
		watches.ask(`"set","scope":"private","user":"a","data":6`, refused("forbidden", "the token does not allow room 42"))
		watches.ask(`"set","scope":"private","data":6`, refused("forbidden", "the token does not allow room 42"))
		boss.ask(`"set","scope":"private","data":6`, refused("not_member", "boss is not in room 42"))
		boss.ask(`"set","scope":"private","user":"c","data":6`, refused("not_member", "c is not in room 42"))
		boss.ask(`"set","scope":"private","user":"a","data":"`+strings.Repeat("x", 1023)+`"`, refused("bad_request", "data must be at most 1024 bytes long, not 1025"))
		// The role of the newest token counts.
		boss.send(authFrame(signed(t, auth.Identity{User: "boss", Role: auth.RolePlayer})))
		boss.next("the reply to auth", time.Second)
		a.ask(`"set","scope":"private","data":7`, `"version":7,"count":2`)
		a.expect(eventOf(7, `{"type":"private","user":"a","seat":0,"data":7}`))
		boss.expect(eventOf(7))
		boss.ask(`"users"`, list(7, ""))
		boss.send(authFrame(signed(t, auth.Identity{User: "boss", Role: auth.RoleAdmin})))
		boss.next("the reply to auth", time.Second)
		a.ask(`"set","scope":"private","data":8`, `"version":8,"count":2`)
		a.expect(eventOf(8, `{"type":"private","user":"a","seat":0,"data":8}`))
		boss.expect(eventOf(8, `{"type":"private","user":"a","seat":0,"data":8}`))
	})
}

// A member keeps its private data while it is away, gets them with the list when it is back, also on another node, takes
// them along when it is moved, and loses them when it leaves.
func TestPrivate_Kept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		a.ask(`"set","scope":"private","data":"hand"`, `"version":3,"count":2`)
		a.cut()
		time.Sleep(time.Second)
		second.act(t, room.Deal{Hands: []room.Hand{{User: "a", Data: `"other hand"`}}})
		a = second.connect(t, "a")
		const users = `"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`
		a.ask(`"join","expect":3`, `"version":6,"seat":1,"count":2,"private":{"a":"other hand"},`+users)
		a.ask(`"join","brief":true`, `"version":6,"seat":1,"count":2,"private":{"a":"other hand"},`+users)
		a.ask(`"leave"`, `"version":7,"count":1`)
		a.ask(`"join"`, `"version":8,"seat":1,"count":2,`+users)
		a.ask(`"set","scope":"private","data":"hand"`, `"version":9,"count":2`)
		a.expect(eventOf(9, `{"type":"private","user":"a","seat":1,"data":"hand"}`))
		second.moveTo(t, "42", "43", "a")
		a.expect(`{"event":"lost","room":"42","reason":"moved","to":"43"}`)
		has := privateOf(t, second, "42") + privateOf(t, second, "43")
		redistest.ErrorIf(t, has != "map[]map[a:\"hand\"]", "the rooms have %s", has)
		a.expectWithin(`{"event":"snapshot","room":"43","version":2,"count":1,"private":{"a":"hand"},"users":[{"user":"a","seat":0}]}`, time.Second)
	})
}

// privateOf returns all private data of a room.
func privateOf(t *testing.T, s *testNode, id string) string {
	t.Helper()
	snapshot, err := s.rooms.Read(t.Context(), id)
	redistest.OK(t, err)
	return fmt.Sprint(snapshot.Private(room.Viewer{Authority: true}))
}

// Whoever reads slowly gets a snapshot with what is private to it, and nobody else's.
func TestPrivate_InSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{MaxQueue: 4 << 10})
		first.act(t, room.Deal{Hands: []room.Hand{{User: "a", Data: "1"}, {User: "b", Data: "2"}}})
		w := first.connect(t, "w")
		w.tell(`"watch"`, `"version":3,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
		for _, v := range []*testClient{a, b} {
			v.next("the event of the deal", time.Second)
		}
		large := `"` + strings.Repeat("x", 6<<10) + `"` // more than a queue may hold
		first.act(t, room.SetData{Data: large})
		for _, v := range []struct {
			*testClient
			private string
		}{{a, `"private":{"a":1},`}, {b, `"private":{"b":2},`}, {w, ""}} {
			v.expectWithin(`{"event":"snapshot","room":"42","version":4,"count":2,"data":`+large+`,`+v.private+`"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`, time.Second)
		}
	})
}

// What others are sent does not depend on what is private, nor on how long it is, to the byte and to the frame: also
// where it comes and goes, is refused, and where events are merged, dropped or made up for.
func TestPrivate_NothingLeaks(t *testing.T) {
	transcript := func(secret string) (heard string) {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{MaxQueue: 4 << 10})
			w, other := first.connect(t, "w"), second.connect(t, "w2")
			everybody := []*testClient{b, w, other}
			pause := func() { time.Sleep(time.Second); synctest.Wait() }
			heardBy := make([]string, len(everybody))
			listen := func() {
				for i, v := range everybody {
					for len(v.frames) > 0 {
						heardBy[i] += <-v.frames + "\n"
					}
				}
			}
			for _, v := range []*testClient{w, other} {
				v.send(`{"id":1,"room":"42","action":"watch"}`)
				pause()
			}
			set := func(data, more string) {
				a.send(`{"id":9,"room":"42","action":"set","scope":"private","data":` + data + more + `}`)
				pause()
			}
			set(secret, "")
			set(secret, `,"expect":0`) // a conflict
			set(secret[:1]+"x"+secret[2:], "")
			first.act(t, room.Deal{Hands: []room.Hand{{User: "a", Data: secret}, {User: "b", Data: "2"}}})
			pause()
			listen()
			first.redisNet.holdEvents() // what comes meanwhile may be merged
			for range 10 {
				second.act(t, room.Deal{Hands: []room.Hand{{User: "a", Data: "0"}}})
				second.act(t, room.Deal{Hands: []room.Hand{{User: "a", Data: secret}}})
			}
			first.redisNet.resume()
			pause()
			for i, v := range everybody { // how many frames they are merged into is a matter of who runs first
				from, n := uint64(5), len(v.frames)
				for range n {
					frame, err := protocol.DecodeFrame([]byte(<-v.frames))
					redistest.OK(t, err)
					e, ok := frame.(*protocol.Event)
					if !ok || e.From != from || len(e.Changes) != 0 {
						t.Errorf("client %d got %+v after version %d", i, frame, from)
						return
					}
					from = e.Version
				}
				heardBy[i] += fmt.Sprintf("nothing up to version %d\n", from)
			}
			for i, request := range []string{
				`"users"`, `"watch"`, `"join"`, `"set","scope":"private","user":"a","data":1`, `"set","scope":"private","data":1,"expect":1`,
				`"set","scope":"member","data":1,"expect":1`, `"set","data":1,"expect":1`, `"say","text":"hi"`, `"leave"`, `"kick","user":"a"`, `"unwatch"`, `"users"`, `"watch"`,
			} {
				for _, v := range everybody {
					v.send(fmt.Sprintf(`{"id":%d,"room":"42","action":%s}`, i, request))
					pause()
				}
			}
			second.act(t, room.SetData{Data: `"` + strings.Repeat("x", 6<<10) + `"`}) // all get snapshots
			pause()
			a.cut()
			pause()
			a = second.connect(t, "a")
			a.send(join42)
			pause()
			set("null", "")
			set(secret, "")
			second.act(t, room.Kick{User: "a"})
			pause()
			redistest.OK(t, first.redis.FlushAll(t.Context()).Err()) // a new epoch
			pause()
			listen()
			heard = strings.Join(heardBy, "")
		})
		return heard
	}
	short := transcript(`"1"`)
	if n := strings.Count(short, "\n"); n < 60 || !strings.Contains(short, "snapshot") || !strings.Contains(short, `"changes":[]`) || !strings.Contains(short, "conflict") {
		t.Fatalf("the others heard only this, in %d frames:\n%s", n, short)
	}
	const secret = "QUEENOFSPADES"
	for _, n := range []int{1, 70} {
		long := transcript(`"` + strings.Repeat(secret, n) + `"`)
		redistest.ErrorIf(t, strings.Contains(long, "QUEEN"), "others are sent the secret:\n%s", long)
		redistest.ErrorIf(t, long != short,
			"with a longer secret the others hear\n%s\nand with a short one\n%s", long, short)
	}
}

// What somebody may not read does not count against what waits for the connection; what an admin reads does.
func TestPrivate_Size(t *testing.T) {
	x := strings.Repeat("x", 2000)
	for kind, detail := range map[room.Kind]*room.Detail{
		"private": {Data: []byte(`"` + x + `"`)}, room.KindMessage: {Text: x, To: []string{"a"}},
	} {
		e := &room.Event{Changes: []room.Change{{Type: kind, User: "a", Detail: detail}}}
		for who, large := range map[room.Viewer]bool{{User: "a"}: true, {User: "b"}: false, {}: false, {User: "c", Authority: true}: kind == "private"} {
			n := frames.Of(e).SizeFor(who)
			redistest.ErrorIf(t, n > 2000 != large || n > 3000, "for %+v %s counts as %d bytes", who, kind, n)
		}
	}
}
