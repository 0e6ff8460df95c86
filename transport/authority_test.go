package transport

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/session"
)

const (
	lostKicked = `{"event":"lost","room":"42","reason":"kicked","text":"cheats"}`
	leftKicked = `{"type":"leave","user":"a","seat":1,"reason":"kicked","text":"cheats"}`
)

// In a room without a host only admins throw users out, close it and configure it; who has no such token is refused,
// and so is everybody on a server without a key.
func TestAuthority_OnlyAdmins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keyed := startWithKey(t, Options{})
		_, _, open, _ := twoNodes(t, room.Rules{}, Options{})
		player, boss := keyed.connectAs(t, "p", auth.RolePlayer), keyed.connectAs(t, "boss", auth.RoleAdmin)
		for action, rest := range map[string]string{"kick": `,"user":"b"`, "close": "", "configure": `,"settings":{"capacity":9}`} {
			for _, c := range []*testClient{player, open} {
				c.ask(`"`+action+`"`+rest, refused("forbidden", "only admins may do that in room 42: its settings give it no host"))
			}
		}
		player.ask(`"users"`, `"epoch":"","version":0,"count":0,"users":[]`)
		open.ask(`"users"`, `"version":2,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
		boss.ask(`"configure","settings":{"capacity":2,"keep":true}`, `"version":1,"count":0`)
		boss.ask(`"configure","settings":{"capacity":3},"expect":0`, `"version":1,`+refused("conflict", "room 42 is not at version 0 any more"))
		player.ask(`"join"`, `"version":2,"seat":0,"count":1,"settings":{"capacity":2,"keep":true},"users":[{"user":"p","seat":0}]`)
		boss.ask(`"kick","user":"p","text":"`+strings.Repeat("x", 201)+`"`, refused("bad_request", "text must be at most 200 bytes long, not 201"))
		boss.ask(`"kick","user":"q"`, refused("not_member", "q is not in room 42"))
		boss.ask(`"kick","user":"p"`, `"version":3,"count":0`)
		player.expect(`{"event":"lost","room":"42","reason":"kicked"}`)
		player.expectSilence()
	})
}

// An admin whose newer token does not allow the room is a member there like any other.
func TestAuthority_TokenWithoutTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		boss := s.connectAs(t, "boss", auth.RoleAdmin)
		s.act(t, room.Configure{Settings: room.Settings{Data: room.DataAdmins}})
		boss.tell(`"join"`, `"version":2,"seat":0,"count":1,"settings":{"capacity":0,"data":"admins"},"users":[{"user":"boss","seat":0}]`)
		boss.tell(`"set","data":1`, `"version":3,"count":1`)
		boss.send(authFrame(signed(t, auth.Identity{User: "boss", Role: auth.RoleAdmin, Rooms: []string{"table-*"}})))
		for _, request := range []string{`"set","data":2`, `"timer","name":"end","in":1000,"then":{"close":true}`} {
			want := map[bool]string{true: "its data", false: "its data and its timers"}[strings.HasPrefix(request, `"set`)]
			boss.tell(request, refused("forbidden", "the settings of room 42 let only admins set "+want))
		}
		s.act(t, room.Configure{})
		boss.tell(`"set","data":2`, `"version":5,"count":1`)
		boss.tell(`"timer","name":"end","in":1000,"then":{"close":true}`, refused("forbidden", "only admins may set a timer that closes the room, or throws somebody out"))
	})
}

// Who is kicked, also through another node, hears lost with the words, and nothing else of the room.
// The connection stays open, and nobody brings the user back. Others, and a watcher who is kicked,
// see why.
func TestKick_Told(t *testing.T) {
	for _, watches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, second, a, b := twoNodes(t, room.Rules{}, Options{MaxRooms: 1})
			if watches {
				a.ask(`"watch"`, `"version":2,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
			}
			second.act(t, room.Kick{User: "a", Text: "cheats"})
			a.expect(lostKicked)
			b.expect(eventOf(3, leftKicked))
			if watches {
				a.expect(eventOf(3, leftKicked))
			}
			b.ask(`"say","text":"hi"`, `"version":4,"count":1`)
			if watches {
				a.expect(eventOf(4, `{"type":"message","user":"b","text":"hi"}`))
			}
			expectQuiet(a)
			if !watches { // the session has nothing to do with the room, or this would be one too many
				a.exchange(`{"id":7,"action":"watch","room":"43"}`, `{"id":7,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
				a.exchange(`{"id":7,"action":"unwatch","room":"43"}`, `{"id":7,"room":"43","epoch":"","version":0,"count":0}`)
			}
			a.ask(`"say","text":"hi"`, refused("not_member", "a is not in room 42"))
			a.ask(`"join"`, `"version":5,"seat":1,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
		})
	}
}

// A node that misses the kick because it is cut off from events tells the user when it has read the
// room again, and brings nobody back.
func TestKick_EventsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.redisNet.holdEvents()
		second.act(t, room.Kick{User: "a", Text: "cheats"})
		first.redisNet.cutEvents()
		time.Sleep(time.Second)
		first.redisNet.resume()
		time.Sleep(time.Minute)
		got := a.next("lost", time.Second)
		redistest.ErrorIf(t, got != lostKicked && got != `{"event":"lost","room":"42","reason":"left"}`, "%v", got)
		a.expectSilence()
		second.expectMembers(t, "42", "b")
	})
}

// A kick while the server brings a user back does not find the user, but a ban keeps the user out.
func TestBan_DuringRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		_, heal := first.hook.failing(room.ErrUnavailable)
		removeA(t, first, second)
		b.expect(eventARemoved)
		second.act(t, room.Kick{User: "a", Until: time.Now().Add(time.Hour).UnixMilli()})
		heal()
		a.expectWithin(`{"event":"lost","room":"42","reason":"banned"}`, session.LastPause)
		b.expect(eventOf(4))
		expectQuiet(a)
		second.expectMembers(t, "42", "b")
	})
}

// A node's own clock may be set wrong, here by an hour: a ban begins and ends by that which all nodes share.
func TestBan_ByTheClockOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
			mini, _ := redistest.Mini(t)
			mini.SetTime(time.Now().Add(-wrong))
			s := (&testNode{mini: mini}).beside(t, room.Rules{}, Options{Auth: newVerifier(t)})
			a, boss := s.connectAs(t, "a", ""), s.connectAs(t, "boss", auth.RoleAdmin)
			a.ask(`"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
			time.Sleep(10 * time.Second) // now the node has asked Redis for the time
			boss.ask(`"kick","user":"a","ban":60`, `"version":2,"count":0`)
			a.expect(`{"event":"lost","room":"42","reason":"kicked"}`)
			for _, action := range []string{"join", "watch"} {
				a.send(`{"id":1,"action":"` + action + `","room":"42"}`)
				if got := a.next("banned", time.Second); !regexp.MustCompile(`is banned from room 42 for another (60|5[0-9]) s"`).MatchString(got) {
					t.Errorf("a clock that is wrong by %v, %s: %s", wrong, action, got)
				}
			}
		}
	})
}

// A kick at the same instant as a request of the user leaves everybody with the same room: the user
// is in it or has heard that it is not.
func TestKick_AtTheSameInstant(t *testing.T) {
	t.Parallel()
	for _, request := range []string{`"join"`, `"leave"`, `"say","text":"hi"`, `"users"`, `"watch"`} {
		for round := range 6 { // in whatever order the goroutines run
			t.Run(fmt.Sprint(request, round), func(t *testing.T) {
				if round > 1 {
					redistest.Thorough(t)
				}
				synctest.Test(t, func(t *testing.T) {
					_, second, a, _ := twoNodes(t, room.Rules{}, Options{})
					kicked := make(chan error, 1)
					go func() {
						_, err := second.rooms.Do(t.Context(), "42", room.Kick{User: "a", Text: "cheats"})
						kicked <- err
					}()
					a.send(`{"id":7,"room":"42","action":` + request + `}`)
					<-kicked
					time.Sleep(30 * time.Second)
					lost, left := false, false
					for len(a.frames) > 0 {
						switch f := <-a.frames; {
						case f == lostKicked:
							lost = true
						case strings.Contains(f, `"seat":1,"count":2`), strings.HasPrefix(f, `{"id":7,"room":"42","version":4,"seat":1`):
							lost = false // a join after the kick
						case request == `"leave"` && strings.HasPrefix(f, `{"id":7`):
							left = true
						}
					}
					in := second.members(t, "42") == "b a"
					redistest.ErrorIf(t, in == (lost || left),
						"a is in the room: %v, heard lost: %v, has left: %v", in, lost, left)
				})
			})
		}
	}
}

// When a room is closed everybody hears it, also who is away, and nobody comes in until it is opened.
func TestClose_TellsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		boss, a, c := s.connectAs(t, "boss", auth.RoleAdmin), s.connectAs(t, "a", ""), s.connectAs(t, "c", "")
		boss.ask(`"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"boss","seat":0}]`)
		a.ask(`"join"`, `"version":2,"seat":1,"count":2,"users":[{"user":"boss","seat":0},{"user":"a","seat":1}]`)
		boss.expect(eventOf(2, `{"type":"join","user":"a","seat":1}`))
		c.tell(`"join"`, `"version":3,"seat":2,"count":3,"users":[{"user":"boss","seat":0},{"user":"a","seat":1},{"user":"c","seat":2}]`)
		c.cut()
		time.Sleep(time.Second)
		w := s.connectAs(t, "w", "")
		w.tell(`"watch"`, `"version":4,"count":3,"users":[{"user":"boss","seat":0},{"user":"a","seat":1},{"user":"c","seat":2,"away":true}]`)
		boss.drain()
		boss.exchange(`{"id":7,"action":"close","room":"42"}`, `{"event":"lost","room":"42","reason":"closed"}`)
		boss.expect(`{"id":7,"room":"42","version":5,"count":0}`)
		w.expect(eventOf(5, `{"type":"leave","user":"boss","seat":0,"reason":"closed"}`, `{"type":"leave","user":"a","seat":1,"reason":"closed"}`,
			`{"type":"leave","user":"c","seat":2,"reason":"closed"}`, `{"type":"settings","settings":{"capacity":0,"closed":true}}`))
		a.tell(`"join"`, refused("closed", "room 42 is closed"))
		expectQuiet(w)
		boss.ask(`"close"`, `"version":5,"count":0`)
		boss.ask(`"configure","settings":{"capacity":0}`, `"version":6,"count":0`)
		a.tell(`"join"`, `"version":7,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
	})
}

// Who was kicked while away, and says at which version it was a member, is told so; others who come
// after a kick come in anew.
func TestKick_Missed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{Grace: time.Hour})
		a.cut()
		b.expect(eventAAway)
		first.act(t, room.Kick{User: "a", Text: "cheats"})
		b.expect(eventOf(4, leftKicked))
		a = second.connect(t, "a")
		a.ask(`"join","seat":1,"expect":2`, `"version":4,"reason":"kicked","text":"cheats",`+refused("conflict", "a was kicked from room 42"))
		a.ask(`"say","text":"x"`, refused("not_member", "a is not in room 42"))
		b.ask(`"users"`, `"version":4,"count":1,"users":[{"user":"b","seat":0}]`)
		a.expectSilence()                                                // no events either
		second.hook.setBefore(func(context.Context, room.Action) error { // the node is subscribed already
			second.hook.setBefore(nil)
			first.act(t, room.SetData{Data: "1", Authority: true})
			first.act(t, room.SetData{Data: "2", Authority: true})
			synctest.Wait()
			return nil
		})
		a.ask(`"join","expect":2`, `"version":6,"reason":"kicked","text":"cheats",`+refused("conflict", "a was kicked from room 42"))
		a.expectSilence()
		a.ask(`"join","seat":1,"expect":4`, `"version":7,"seat":1,"count":2,"data":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
	})
}

// A ping is answered, but not before the token.
func TestPing_Answered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, a, _ := twoNodes(t, room.Rules{}, Options{})
		a.ping()
		a.ask(`"ping"`, `"error":{"code":"bad_request","message":"room: does not go with ping","retry":false}`)
		keyed := startWithKey(t, Options{})
		x := keyed.dialWith(t, "").reading()
		x.exchange(`{"id":1,"action":"ping"}`, `{"id":1,`+refused("unauthorized", "the first request must be auth, with a token")+`}`)
		x.expectClose(4003)
		p := keyed.connectAs(t, "p", auth.RolePlayer)
		p.ping()
	})
}

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
