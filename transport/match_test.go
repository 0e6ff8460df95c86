package transport

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
)

var matched = regexp.MustCompile(`^\{"id":\d+,"room":"([^"]+)"`)

// match looks for a table, and returns the room of the reply.
func (c *testClient) match(more string) string {
	c.t.Helper()
	c.send(`{"id":7,"action":"match","labels":{"mode":"ranked"}` + more + `}`)
	reply := c.next("the reply to a match", time.Second)
	found := matched.FindStringSubmatch(reply)
	redistest.FatalIf(c.t, found == nil || strings.Contains(reply, `"error"`), "%s", reply)
	return found[1]
}

// Players on two nodes find the same table, get its events, and leave it, as after a join. Tables that they cannot enter are passed over, and
// leave nothing behind in their sessions.
func TestMatch_Session(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := start(t, room.Rules{}, Options{Rate: -1, MaxRooms: 3})
		nodes := []*testNode{first, first.beside(t, room.Rules{}, Options{Rate: -1})}
		for i, s := range []room.Settings{{Capacity: 1}, {Capacity: 3}} {
			s.Labels = `{"mode":"ranked"}`
			nodes[0].actIn(t, fmt.Sprint("t", i), room.Configure{Settings: s})
		}
		nodes[0].actIn(t, "t1", room.Join{User: "x", Session: "s"})
		nodes[0].actIn(t, "t0", room.Kick{User: "a", Until: room.Forever})
		time.Sleep(time.Second)
		a, b, c := nodes[0].connect(t, "a"), nodes[1].connect(t, "b"), nodes[1].connect(t, "c")
		redistest.Equal(t, "a, who is banned from the fullest, sits in", a.match(""), "t1")
		redistest.Equal(t, "b sits in", b.match(""), "t0")
		redistest.Equal(t, "c sits in", c.match(`,"brief":true`), "t1")
		a.expect(`{"event":"changes","room":"t1","version":4,"from":3,"changes":[{"type":"join","user":"c","seat":2}]}`)
		table := a.match(`,"settings":{"capacity":2,"data":"admins"}`)
		redistest.ErrorIf(t, !strings.HasPrefix(table, session.NewRoomPrefix), "a new room is called %s", table)
		redistest.Equal(t, "b sits in", b.match(""), table)
		a.expect(`{"event":"changes","room":"` + table + `","version":2,"from":1,"changes":[{"type":"join","user":"b","seat":1}]}`)
		a.exchange(`{"id":7,"action":"watch","room":"42"}`, `{"id":7,"room":"42","epoch":"","version":0,"count":0,"users":[]}`) // the third room
		again := nodes[0].connect(t, "again")
		theirs := again.match(`,"settings":{"capacity":3}`)
		for range 4 { // who sits there takes no seat from others
			redistest.Equal(t, "who looks again sits in", again.match(""), theirs)
			time.Sleep(time.Second)
		}
		redistest.Equal(t, "another one sits in", nodes[1].connect(t, "d").match(""), theirs)
		a.exchange(`{"id":8,"action":"leave","room":"`+table+`"}`, `{"id":8,"room":"`+table+`","version":3,"count":1}`)
		b.expect(`{"event":"changes","room":"` + table + `","version":3,"from":2,"changes":[{"type":"leave","user":"a","seat":0,"reason":"left"}]}`)
		for frame, refusal := range map[string]string{
			`"labels":{}`:      `"error":{"code":"bad_request","message":"labels must not be empty`,
			`"labels":{"a":1}`: `"error":{"code":"bad_request","message":"labels: must be an object whose values are strings`,
			`"labels":{"a":"b"},"settings":{"keep":true}`:                `"error":{"code":"forbidden"`,
			`"labels":{"a":"b"},"settings":{"closed":true}`:              `"error":{"code":"forbidden"`,
			`"labels":{"a":"b"},"room":"42"`:                             `"error":{"code":"bad_request","message":"room: `,
			`"settings":{}`:                                              `"error":{"code":"bad_request","message":"labels: required`,
			`"labels":{"a":"b"},"key":"` + strings.Repeat("x", 65) + `"`: `"error":{"code":"bad_request","message":"key must be at most 64 bytes`,
		} {
			a.send(`{"id":9,"action":"match",` + frame + `}`)
			got := a.next("a refusal", time.Second)
			redistest.ErrorIf(t, !strings.Contains(got, refusal), "%s: %s", frame, got)
		}
	})
}

// tables returns how many sit at each table that the index has, and how many seats each has; claims of others count as an error.
func (s *testNode) tables(t *testing.T) (tables []string) {
	t.Helper()
	for id, text := range s.redis.HGetAll(t.Context(), "Lobby:Rooms").Val() {
		is := strings.Fields(text)
		if len(is) > 3 && is[0] == "-" {
			t.Errorf("nobody has begun %s, and it is in the index", id)
		} else if len(is) > 3 {
			tables = append(tables, is[3]+" of "+is[4])
		}
	}
	slices.Sort(tables)
	return tables
}

// untouched runs try, and wants the index as it was: nothing was claimed, and be it for a moment.
func (s *testNode) untouched(t *testing.T, try func()) {
	t.Helper()
	before := s.redis.HGet(t.Context(), "Lobby:State", "number").Val()
	try()
	redistest.Equal(t, "changes of the index", s.redis.HGet(t.Context(), "Lobby:State", "number").Val(), before)
}

// A player who is in as many rooms as a connection may be claims no seats: it neither keeps others apart, nor gives them its settings.
func TestMatch_OneRoomTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{MaxRooms: 2, Rate: -1})
		full := s.connect(t, "full")
		for id := range 2 {
			full.send(fmt.Sprintf(`{"id":1,"action":"watch","room":"w%d"}`, id))
			full.next("the reply to a watch", time.Second)
		}
		refused := func(more string) {
			full.send(`{"id":2,"action":"match","labels":{"mode":"ranked"}` + more + `}`)
			full.expect(`{"id":2,"error":{"code":"bad_request","message":"room is one too many: a connection can be in, or watch, 2 rooms","retry":false}}`)
		}
		s.untouched(t, func() { refused(`,"settings":{"capacity":60,"data":"admins"}`) })
		for i := range 24 {
			refused(`,"settings":{"capacity":60,"data":"admins"},"key":"k"`)
			s.connect(t, fmt.Sprint("u", i)).match(`,"settings":{"capacity":4}`)
			refused("")
			time.Sleep(400 * time.Millisecond)
		}
		time.Sleep(time.Second)
		redistest.Equal(t, "tables:", fmt.Sprint(s.tables(t)), "[4 of 4 4 of 4 4 of 4 4 of 4 4 of 4 4 of 4]")
	})
}

// A player who has begun as many rooms as it may finds those of others, and where there is none leaves nothing in the index.
func TestMatch_TooManyNewRooms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := make(chan string, 100)
		s := start(t, room.Rules{}, Options{MaxNewRooms: 1, Rate: -1, Trace: &Trace{Refused: func(limit string) { refused <- limit }}})
		a := s.connect(t, "a")
		a.match(`,"settings":{"capacity":1}`)
		time.Sleep(time.Second)
		s.untouched(t, func() {
			for i := range 20 {
				a.send(fmt.Sprintf(`{"id":2,"action":"match","labels":{"mode":"m%d"},"key":"k"}`, i))
				a.expect(`{"id":2,"error":{"code":"rate_limited","message":"there is no such room, and a user may begin 1 rooms a minute; wait 59s","retry":true}}`)
			}
		})
		redistest.ErrorIf(t, len(refused) != 20 || <-refused != LimitNewRooms,
			"%d refusals are counted", len(refused))
		redistest.Equal(t, "tables:", fmt.Sprint(s.tables(t)), "[1 of 1]")
		theirs := s.connect(t, "b").match("")
		redistest.Equal(t, "where there is a table:", a.match(""), theirs)
		keys := s.redis.Keys(t.Context(), "Lobby:Match:*").Val()
		redistest.ErrorIf(t, len(keys) > 0, "requests that were refused are kept: %v", keys)
	})
}

// A server bounds with which settings players begin rooms, by the labels. What it does not bound, players choose.
func TestMatch_Settings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{Rate: -1, MatchSettings: MatchSettings{
			{Capacity: 4, Labels: `{"mode":"ranked"}`}, {Capacity: 2, Labels: `{"mode":"ranked"}`, Host: room.HostLongest}, {Capacity: 9, Labels: `{"mode":"party"}`},
		}})
		a := s.connect(t, "a")
		for i, tt := range []struct{ labels, settings, want string }{
			{`"mode":"ranked"`, `{"capacity":60,"data":"admins"}`, `"error":{"code":"bad_request","message":"settings must be left out, or one of [{\"capacity\":4},{\"capacity\":2,\"host\":\"longest\"}]"`},
			{`"mode":"ranked"`, `{"capacity":9}`, `"error":{"code":"bad_request"`},
			{`"mode":"ranked"`, `{"capacity":4,"watch":"members"}`, `"error":{"code":"bad_request"`},
			{`"mode":"ranked"`, ``, `"settings":{"capacity":4,"labels":{"mode":"ranked","n":"3"}}`},
			{`"mode":"ranked"`, `{"capacity":4}`, `"settings":{"capacity":4,`},
			{`"mode":"ranked"`, `{"capacity":2,"host":"longest"}`, `"settings":{"capacity":2,`},
			{`"mode":"ranked"`, `{"capacity":4,"labels":{"mode":"ranked","n":"6"}}`, `"settings":{"capacity":4,`},
			{`"mode":"party"`, `{"capacity":9}`, `"settings":{"capacity":9,`},
			{`"mode":"other"`, `{"capacity":4}`, `"error":{"code":"forbidden","message":"there is no room with these labels and free seats, and this server lets no player begin one"`},
			{`"mode":"other"`, ``, `"error":{"code":"forbidden"`},
		} {
			more := ""
			if tt.settings != "" {
				more = `,"settings":` + tt.settings
			}
			a.send(fmt.Sprintf(`{"id":7,"action":"match","labels":{%s,"n":"%d"}%s}`, tt.labels, i, more))
			got := a.next("the reply to a match", time.Second)
			redistest.ErrorIf(t, !strings.Contains(got, tt.want), "%s %s: %s", tt.labels, tt.settings, got)
		}
		s.actIn(t, "theirs", room.Configure{Settings: room.Settings{Capacity: 5, Labels: `{"mode":"other"}`}})
		time.Sleep(time.Second)
		a.send(`{"id":7,"action":"match","labels":{"mode":"other"}}`)
		got := a.next("the reply to a match", time.Second)
		redistest.ErrorIf(t, !strings.Contains(got, `"room":"theirs"`), "a room that an admin has begun: %s", got)
		admin := MatchSettings{{Keep: true}}.Check()
		_, is := errors.AsType[*room.InvalidError](admin)
		redistest.ErrorIf(t, !is, "rooms that only admins begin: %v", admin)
	})
}
