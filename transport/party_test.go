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
)

// into joins room p1.
func (c *testClient) into() *testClient {
	c.t.Helper()
	c.send(`{"id":1,"action":"join","room":"p1"}`)
	c.next("the reply to a join", time.Second)
	return c
}

// partyOn has users sit in room p1, on two nodes by turns.
func partyOn(t *testing.T, opts Options, users ...string) (nodes []*testNode, clients []*testClient) {
	t.Helper()
	first := start(t, room.Rules{}, opts)
	nodes = []*testNode{first, first.beside(t, room.Rules{}, opts)}
	for i, user := range users {
		clients = append(clients, nodes[i%2].connect(t, user).into())
	}
	for _, c := range clients {
		c.drain()
	}
	return nodes, clients
}

// table begins a table with that many seats.
func (s *testNode) table(t *testing.T, id string, seats int) {
	t.Helper()
	s.actIn(t, id, room.Configure{Settings: room.Settings{Capacity: seats, Labels: `{"mode":"ranked"}`}})
	time.Sleep(time.Second)
}

// sendParty sends a match of party p1.
func (c *testClient) sendParty(more string) {
	c.send(`{"id":7,"action":"match","labels":{"mode":"ranked"},"party":"p1"` + more + `}`)
}

// matchReply returns the next reply to a match, behind any events.
func (c *testClient) matchReply() (reply string) {
	c.t.Helper()
	for !strings.HasPrefix(reply, `{"id":7,`) {
		reply = c.next("the reply to a match", 20*time.Second)
	}
	return reply
}

// party sends a match of party p1, and returns the room of the reply.
func (c *testClient) party(more string) string {
	c.t.Helper()
	c.sendParty(more)
	reply := c.matchReply()
	found := matched.FindStringSubmatch(reply)
	redistest.FatalIf(c.t, found == nil || strings.Contains(reply, `"error"`), "%s", reply)
	return found[1]
}

// refused expects a match of party p1 to be refused.
func (c *testClient) refused(more, why string) {
	c.t.Helper()
	c.sendParty(more)
	got := c.matchReply()
	redistest.ErrorIf(c.t, !strings.Contains(got, `"error":{"code":"`+why), "%s: %s, want %s", more, got, why)
}

// expectTable waits until the client has followed its user to a table.
func (c *testClient) expectTable(id string) {
	c.t.Helper()
	for lost, snapshot := false, false; !lost || !snapshot; {
		got := c.next("the table", time.Second)
		lost = lost || strings.HasPrefix(got, `{"event":"lost","room":"p1","reason":"moved","to":"`+id+`"`)
		snapshot = snapshot || strings.HasPrefix(got, `{"event":"snapshot","room":"`+id+`"`)
	}
}

// The users whom a member names sit down together as soon as each of them agrees, and not before. The others follow by
// themselves, and those who were not named stay. A repeated request finds the same table.
func TestParty_SitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := partyOn(t, Options{Rate: -1, MaxRooms: 1}, "a", "b", "c", "d")
		nodes[0].table(t, "small", 2)
		nodes[0].table(t, "t", 4)
		a, b, c := all[0], all[1], all[2]
		redistest.Equal(t, "who agrees stays in", b.party(""), "p1")
		redistest.Equal(t, "who asks before all agree stays in", a.party(`,"users":["b","c"]`), "p1")
		c.drain()
		c.exchange(`{"id":7,"action":"match","labels":{"mode":"other"},"party":"p1","users":["a","b","c"],"brief":true}`,
			`{"id":7,"room":"p1","version":7,"seat":2,"count":4}`) // that is another match
		nodes[1].expectMembers(t, "p1", "a b c d")
		redistest.Equal(t, "the last one sits in", c.party(`,"users":["a","b"]`), "t")
		a.expectTable("t")
		b.expectTable("t")
		nodes[0].expectMembers(t, "p1", "d")
		nodes[1].expectMembers(t, "t", "a b c")
		redistest.Equal(t, "who asks again sits in", c.party(`,"users":["a","b"]`), "t")
		a.drain()
		a.exchange(`{"id":8,"action":"match","labels":{"mode":"other"},"party":"p1"}`, // that is another match
			`{"id":8,"error":{"code":"not_member","message":"a is not in room p1","retry":false}}`)
		b.drain()
		b.send(`{"id":8,"action":"leave","room":"t"}`)
		b.next("the reply to a leave", time.Second)
		time.Sleep(2 * time.Minute)
		b.refused("", "not_member")
		all[3].drain()
		redistest.ErrorIf(t, all[3].party(`,"users":["d"]`) == "p1", "a party of one gets no table")
	})
}

// A refused match is no agreement, and the party's own room no table. Who was moved by others has not agreed.
func TestParty_NotAgreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := partyOn(t, Options{Rate: -1}, "a", "b")
		a, b := all[0], all[1]
		a.party("")
		b.refused(`,"users":["a"],"settings":{"capacity":1}`, "bad_request")
		redistest.Equal(t, "b has not agreed, so a stays in", a.party(`,"users":["b"]`), "p1")
		nodes[0].table(t, "p1", 9)
		redistest.ErrorIf(t, b.party(`,"users":["a"]`) == "p1", "the party sits in its own room")
		b.into()
		_, _, err := nodes[0].Move(t.Context(), "p1", "elsewhere", "b")
		redistest.OK(t, err)
		b.refused("", "not_member")
	})
}

// Nobody is seated whose agreement has ended, and nobody on whose behalf others ask.
func TestParty_OnlyWhoAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := partyOn(t, Options{Rate: -1}, "a", "b")
		nodes[0].table(t, "t", 64)
		a, b := all[0], all[1]
		b.party("")
		b.exchange(`{"id":8,"action":"leave","room":"p1"}`, `{"id":8,"room":"p1","version":4,"count":1}`)
		b.into()
		redistest.Equal(t, "after a leave the agreement has ended, and the other one stays in", a.party(`,"users":["b"]`), "p1")
		x := nodes[0].connect(t, "x")
		x.refused(`,"users":["a","b"]`, "not_member")
		x.refused(``, "not_member")
		nodes[0].connect(t, "a").refused(`,"users":["a"]`, "not_member") // the user's other connection is in the room
		for more, why := range map[string]string{
			`,"users":["b","b"]`:          "bad_request",
			`,"users":[]`:                 "bad_request",
			`,"users":["b"],"room":"p1"`:  "bad_request",
			`,"users":["b",""]`:           "bad_request",
			`,"users":["` + names(64):     "bad_request",
			`,"users":["` + names(65):     "bad_request",
			`,"settings":{"closed":true}`: "forbidden",
		} {
			a.refused(more, why)
		}
		a.send(`{"id":7,"action":"match","labels":{"mode":"ranked"},"users":["a","b"]}`)
		redistest.Equal(t, "users without a party:", a.matchReply(),
			`{"id":7,"error":{"code":"bad_request","message":"users: with match, only goes with party","retry":false}}`)
		a.send(`{"id":7,"action":"match","labels":{"mode":"ranked"},"party":"a b"}`)
		redistest.Equal(t, "no room:", a.matchReply(),
			`{"id":7,"error":{"code":"bad_request","message":"party may hold only A-Z a-z 0-9 . _ -, not ' '","retry":false}}`)
		a.exchange(`{"id":7,"action":"match","labels":{"mode":"ranked"},"party":""}`,
			`{"id":7,"error":{"code":"bad_request","message":"party: must not be empty","retry":false}}`)
		nodes[1].expectMembers(t, "p1", "a b")
		nodes[1].expectMembers(t, "t", "")
	})
}

// names ends a list of n different users.
func names(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("u", i)
	}
	return strings.Join(list, `","`) + `"]`
}

// A table has to admit each member of the party: by the token, the bans, and the seats. Otherwise the next one is tried.
func TestParty_PassesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{Rate: -1})
		a := s.with(t, auth.Identity{User: "a", Rooms: []string{"p1", "m-*", "t*"}}).into()
		b := s.with(t, auth.Identity{User: "b", Rooms: []string{"p1", "t[2-9]"}}).into()
		for i, seats := range []int{2, 3, 4} {
			s.table(t, fmt.Sprint("t", i+1), seats)
		}
		s.actIn(t, "t2", room.Kick{User: "b", Until: room.Forever})
		b.party("")
		redistest.Equal(t, "b's token forbids t1, and t2 has banned b, so both sit in", a.party(`,"users":["b"]`), "t3")
		b.expectTable("t3")
		a.drain()
		for _, c := range []*testClient{a, b} {
			c.send(`{"id":1,"action":"leave","room":"t3"}`)
			c.next("the reply to a leave", time.Second)
			c.into()
		}
		s.actIn(t, "t3", room.Close{})
		time.Sleep(time.Second)
		b.party("")
		a.refused(`,"users":["b"],"settings":{"capacity":2}`, `forbidden","message":"the token of b does not allow room m-`)
		a.refused(`,"users":["b"],"settings":{"capacity":1}`, "bad_request")
		s.expectMembers(t, "p1", "a b")
		redistest.Equal(t, "tables:", fmt.Sprint(s.tables(t)), "[0 of 2 0 of 3 2 of 0]") // the last is p1
	})
}

// A member who is disconnected goes along, and follows when the connection is back. A seat is kept for the grace.
func TestParty_Away(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, all := partyOn(t, Options{Rate: -1, Grace: 10 * time.Second, MaxRooms: 1}, "a", "b", "c")
		nodes[0].table(t, "t", 3)
		for _, c := range all[1:] {
			c.party("")
			c.cut()
		}
		time.Sleep(time.Second)
		redistest.Equal(t, "a sits in", all[0].party(`,"users":["b","c"]`), "t")
		b := nodes[0].connect(t, "b")
		b.exchange(`{"id":1,"action":"join","room":"p1","expect":2}`, `{"id":1,"room":"p1","version":8,"reason":"moved","to":"t",`+
			`"error":{"code":"conflict","message":"b was moved from room p1 to room t","retry":false}}`)
		b.exchange(`{"id":2,"action":"watch","room":"w"}`, `{"id":2,"room":"w","epoch":"","version":0,"count":0,"users":[]}`)
		redistest.Equal(t, "who repeats the match sits in", b.party(""), "t")
		time.Sleep(time.Minute)
		nodes[1].expectMembers(t, "t", "b a")
	})
}

// Parties that look for the last seats at the same instant, on two nodes, get them whole or not at all.
func TestParty_AtOnce(t *testing.T) {
	for name, agreed := range map[string]bool{"all agree at once": false, "all ask at once": true} {
		bubble(t, name, func(t *testing.T) {
			nodes, all := partyOn(t, Options{Rate: -1}, "a", "b", "c", "d", "e", "f")
			nodes[0].table(t, "t", 4)
			for _, c := range all {
				if agreed {
					c.party("")
				}
			}
			for i, c := range all {
				c.sendParty(`,"users":["` + []string{`a","b","c`, `d","e","f`}[i/3] + `"],"settings":{"capacity":4}`)
			}
			time.Sleep(20 * time.Second)
			nodes[0].expectMembers(t, "p1", "")
			var full []string
			for _, table := range nodes[0].tables(t) {
				if table != "0 of 4" {
					full = append(full, table)
				}
			}
			redistest.Equal(t, "tables:", fmt.Sprint(full), "[3 of 4 3 of 4]")
			redistest.ErrorIf(t, !agreed && len(nodes[0].members(t, "t")) == 0, "both parties began rooms")
			for i, c := range all {
				at := ""
				for len(c.frames) > 0 {
					frame := string(<-c.frames)
					redistest.ErrorIf(t, strings.Contains(frame, `"error"`), "%s", frame)
					if strings.Contains(frame, `"users":[`) && !strings.Contains(frame, `"room":"p1"`) {
						at = frame
					}
				}
				for _, user := range []string{"abc", "def"}[i/3] {
					redistest.ErrorIf(t, !strings.Contains(at, fmt.Sprintf(`{"user":"%c"`, user)), "%c is missing in %s", user, at)
				}
			}
		})
	}
}
