package transport

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

var matched = regexp.MustCompile(`^\{"id":\d+,"room":"([^"]+)"`)

// match looks for a table, and returns the room of the reply.
func (c *testClient) match(more string) string {
	c.t.Helper()
	c.send(`{"id":7,"action":"match","labels":{"mode":"ranked"}` + more + `}`)
	reply := c.next("the reply to a match", time.Second)
	found := matched.FindStringSubmatch(reply)
	if found == nil || strings.Contains(reply, `"error"`) {
		c.t.Fatalf("%s", reply)
	}
	return found[1]
}

// Players on two nodes find the same table, get its events, and leave it, as after a join. Tables that they cannot enter are passed over, and
// leave nothing behind in their sessions.
func TestMatch_Session(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := start(t, room.Rules{}, Options{Rate: -1})
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
		if !strings.HasPrefix(table, newRoomPrefix) {
			t.Errorf("a new room is called %s", table)
		}
		redistest.Equal(t, "b sits in", b.match(""), table)
		a.expect(`{"event":"changes","room":"` + table + `","version":2,"from":1,"changes":[{"type":"join","user":"b","seat":1}]}`)
		nodes[0].conns.mu.Lock()
		for _, conn := range nodes[0].conns.open {
			if conn.session.user == "a" && len(conn.session.presences) != 2 {
				t.Errorf("a is in two rooms, and the session knows %d", len(conn.session.presences))
			}
		}
		nodes[0].conns.mu.Unlock()
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
			if got := a.next("a refusal", time.Second); !strings.Contains(got, refusal) {
				t.Errorf("%s: %s", frame, got)
			}
		}
	})
}

// BenchmarkMatch measures how long it takes until 2,000 players, who look for tables of four at once through four nodes, all
// sit there: the connections are there before.
func BenchmarkMatch(b *testing.B) {
	const players = 2000
	server := redistest.Start(b)
	var nodes []*testNode
	for range 4 {
		nodes = append(nodes, startOn(b, server.Client(), coordinator.Options{}, Options{Rate: -1, MaxPerAddress: players, Grace: -1}))
	}
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		clients := make([]*rawClient, players)
		for i := range clients {
			clients[i] = nodes[i%4].connectRawAs(b, fmt.Sprint("p", round, "-", i))
		}
		frame := masked(fmt.Sprintf(`{"id":1,"action":"match","labels":{"round":"r%d"},"settings":{"capacity":4},"brief":true}`, round))
		b.StartTimer()
		var wg sync.WaitGroup
		var mu sync.Mutex
		tables := make(map[string]int)
		for _, c := range clients {
			wg.Go(func() {
				c.write(string(frame))
				for {
					_, content, err := c.frame()
					if err != nil {
						b.Error(err)
						return
					}
					if strings.HasPrefix(content, `{"id":1,`) {
						found := matched.FindStringSubmatch(content)
						if found == nil {
							b.Error(content)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						tables[found[1]]++
						return
					}
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		if len(tables) != players/4 {
			b.Errorf("%d tables", len(tables))
		}
		for _, c := range clients {
			_ = c.raw.Close()
		}
		b.StartTimer()
	}
}
