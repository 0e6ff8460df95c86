package transport

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/auth"
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
	var limits tracedLimits
	s := start(t, room.Rules{}, Options{MaxRooms: 2, Trace: limits.trace()})
	a := s.connect(t, "a")
	a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	a.exchange(`{"id":2,"action":"watch","room":"43"}`, `{"id":2,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
	for _, action := range []string{"join", "watch"} {
		a.send(`{"id":3,"action":"` + action + `","room":"44"}`)
		a.expect(`{"id":3,"room":"44","error":{"code":"bad_request","message":"room is one too many: a connection can be in, or watch, 2 rooms","retry":false}}`)
	}
	redistest.Equal(t, "traced:", limits.names(), LimitRooms)
	a.askAbout("43", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`) // is one of the two
	a.exchange(`{"id":5,"action":"leave","room":"42"}`, `{"id":5,"room":"42","version":2,"count":0}`)
	a.send(`{"id":6,"action":"join","room":"a b"}`) // a refused room does not count
	a.expect(`{"id":6,"room":"a b","error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not ' '","retry":false}}`)
	a.exchange(`{"id":7,"action":"join","room":"44"}`, `{"id":7,"room":"44","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
}

// A ban ends the watching of that user at once, on every node, and until it is over the user sees nothing
// of the room. The others go on.
func TestWatch_EndedByBan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		list := `"version":2,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`
		w, far, other := first.connect(t, "w"), second.connect(t, "w"), first.connect(t, "x")
		for _, c := range []*testClient{w, far, other, a} {
			c.ask(`"watch"`, list)
		}
		second.act(t, room.Kick{User: "w", Until: time.Now().Add(time.Minute).UnixMilli()})
		for _, c := range []*testClient{w, far} {
			c.expect(`{"event":"unwatched","room":"42","reason":"banned"}`)
			for _, action := range []string{"watch", "users", "join"} {
				c.send(`{"id":2,"action":"` + action + `","room":"42"}`)
				c.expect(`{"id":2,"room":"42","error":{"code":"banned","message":"w is banned from room 42 for another 60 s","retry":false}}`)
			}
		}
		expectAll(eventOf(3), a, b, other)
		second.act(t, room.Kick{User: "a", Text: "spam", Until: room.Forever})
		a.expect(`{"event":"lost","room":"42","reason":"kicked","text":"spam"}`)
		a.expect(`{"event":"unwatched","room":"42","reason":"banned"}`)
		leave := `{"type":"leave","user":"a","seat":1,"reason":"kicked","text":"spam"}`
		expectAll(eventOf(4, leave), b, other)
		second.act(t, room.Unban{User: "w"}) // what was before the watch does not end it
		w.ask(`"watch"`, `"version":5,"count":1,"users":[{"user":"b","seat":0}]`)
		second.act(t, room.Say{Text: "hi"})
		w.expect(eventOf(6, `{"type":"message","text":"hi"}`))
		for _, c := range []*testClient{a, w, far} {
			c.expectSilence()
		}
	})
}

// Where the settings say so, only members watch: who watched is told, also who was a member until then.
func TestWatch_OnlyMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{})
		w := first.connect(t, "w")
		for _, c := range []*testClient{w, a} {
			c.ask(`"watch"`, `"version":2,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
		}
		second.act(t, room.Configure{Settings: room.Settings{Watch: room.WatchMembers}})
		w.expect(`{"event":"unwatched","room":"42","reason":"forbidden"}`)
		settings := `"settings":{"capacity":0,"watch":"members"}`
		expectAll(eventOf(3, `{"type":"settings",`+settings+`}`), a, b)
		for _, action := range []string{"watch", "users"} {
			w.send(`{"id":2,"action":"` + action + `","room":"42"}`)
			w.expect(`{"id":2,"room":"42","error":{"code":"forbidden","message":"the settings of room 42 let only members watch it","retry":false}}`)
		}
		w.exchange(`{"id":2,"action":"unwatch","room":"42"}`, `{"id":2,"room":"42","epoch":"","version":0,"count":0}`)
		a.ask(`"users"`, `"version":3,"count":2,`+settings+`,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
		a.ask(`"leave"`, `"version":4,"count":1`)
		a.expect(`{"event":"unwatched","room":"42","reason":"forbidden"}`)
		b.expect(eventOf(4, `{"type":"leave","user":"a","seat":1,"reason":"left"}`))
		second.act(t, room.Configure{Settings: room.Settings{}})
		w.ask(`"watch"`, `"version":5,"count":1,"users":[{"user":"b","seat":0}]`)
		w.expectSilence()
		a.expectSilence()
	})
}

// The claim watch of a token says which rooms its user may watch without being a member. Admins may watch
// in spite of settings and bans.
func TestWatch_Token(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		player := s.with(t, auth.Identity{User: "p", Watch: []string{}})
		guest := s.with(t, auth.Identity{User: "g", Rooms: []string{}, Watch: []string{"4?"}})
		admin := s.with(t, auth.Identity{User: "a", Role: auth.RoleAdmin})
		forbidden := `{"id":1,"room":"42","error":{"code":"forbidden","message":"the token does not allow room 42","retry":false}}`
		for _, step := range []struct {
			who    *testClient
			action string
			want   string
		}{
			{player, "watch", forbidden}, {player, "users", forbidden},
			{player, "join", `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"p","seat":0}]}`},
			{player, "users", `{"id":1,"room":"42","version":1,"count":1,"users":[{"user":"p","seat":0}]}`},
			{guest, "join", forbidden},
			{guest, "watch", `{"id":1,"room":"42","version":1,"count":1,"users":[{"user":"p","seat":0}]}`},
			{admin, "watch", `{"id":1,"room":"42","version":1,"count":1,"users":[{"user":"p","seat":0}]}`},
		} {
			step.who.send(fmt.Sprintf(`{"id":1,"action":%q,"room":"42"}`, step.action))
			step.who.expect(step.want)
		}
		s.act(t, room.Configure{Settings: room.Settings{Watch: room.WatchMembers}})
		guest.expect(`{"event":"unwatched","room":"42","reason":"forbidden"}`)
		admin.expect(eventOf(2, `{"type":"settings","settings":{"capacity":0,"watch":"members"}}`))
		s.act(t, room.Kick{User: "a", Until: room.Forever})
		admin.expect(eventOf(3))
		admin.send(`{"id":1,"action":"users","room":"42"}`)
		admin.expect(`{"id":1,"room":"42","version":3,"count":1,"settings":{"capacity":0,"watch":"members"},"users":[{"user":"p","seat":0}]}`)
	})
}

// Who may watch only as a member, says the token, watches no more when the membership ends. A newer token
// that does not allow to watch ends the watch, and so may one that makes an admin a player, whom a ban binds
// that came before it, unless it was lifted.
func TestWatch_NotAllowedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		expires := time.Now().Add(time.Hour)
		unwatched := `{"event":"unwatched","room":"42","reason":"forbidden"}`
		ask := func(c *testClient, action, want string) {
			t.Helper()
			c.exchange(fmt.Sprintf(`{"id":1,"action":%q,"room":"42"}`, action), `{"id":1,"room":"42",`+want+`}`)
		}
		renew := func(c *testClient, who auth.Identity) {
			t.Helper()
			c.send(`{"id":1,"action":"auth","token":"` + signed(t, who) + `"}`)
			c.expect(fmt.Sprintf(`{"id":1,"user":%q,"expires":%d}`, who.User, expires.Unix()))
		}
		leaves := s.with(t, auth.Identity{User: "l", Watch: []string{}})
		ask(leaves, "join", `"version":1,"seat":0,"count":1,"users":[{"user":"l","seat":0}]`)
		ask(leaves, "watch", `"version":1,"count":1,"users":[{"user":"l","seat":0}]`)
		ask(leaves, "leave", `"version":2,"count":0`)
		leaves.expect(unwatched)

		kicked := s.with(t, auth.Identity{User: "k", Watch: []string{}})
		ask(kicked, "join", `"version":3,"seat":0,"count":1,"users":[{"user":"k","seat":0}]`)
		ask(kicked, "watch", `"version":3,"count":1,"users":[{"user":"k","seat":0}]`)
		s.act(t, room.Kick{User: "k"})
		kicked.expect(`{"event":"lost","room":"42","reason":"kicked"}`)
		kicked.expect(unwatched)

		s.act(t, room.Configure{Settings: room.Settings{Watch: room.WatchMembers}})
		narrowed, demoted := s.with(t, auth.Identity{User: "n", Role: auth.RoleAdmin}), s.with(t, auth.Identity{User: "d", Role: auth.RoleAdmin})
		for _, c := range []*testClient{narrowed, demoted} {
			ask(c, "watch", `"version":5,"count":0,"settings":{"capacity":0,"watch":"members"},"users":[]`)
		}
		renew(narrowed, auth.Identity{User: "n", Role: auth.RoleAdmin, Rooms: []string{"43"}})
		renew(demoted, auth.Identity{User: "d"})
		expectAll(unwatched, narrowed, demoted)

		s.act(t, room.Configure{Settings: room.Settings{}})
		banned, free := s.with(t, auth.Identity{User: "b", Role: auth.RoleAdmin}), s.with(t, auth.Identity{User: "f", Role: auth.RoleAdmin})
		for _, c := range []*testClient{banned, free} {
			ask(c, "watch", `"version":6,"count":0,"users":[]`)
		}
		for i, action := range []room.Action{room.Kick{User: "b", Until: room.Forever}, room.Kick{User: "f", Until: room.Forever}, room.Unban{User: "f"}} {
			s.act(t, action)
			expectAll(eventOf(7+i), banned, free)
		}
		renew(banned, auth.Identity{User: "b"})
		banned.expect(`{"event":"unwatched","room":"42","reason":"banned"}`)
		renew(free, auth.Identity{User: "f"})
		s.act(t, room.Say{Text: "secret"})
		free.expect(eventOf(10, `{"type":"message","text":"secret"}`))
		for _, c := range []*testClient{leaves, kicked, narrowed, demoted, banned} {
			c.ping()
		}
	})
}
