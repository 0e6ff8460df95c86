package transport

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

// tracedLimits counts what limits refuse.
type tracedLimits struct {
	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

func (l *tracedLimits) trace() *Trace {
	l.counts = make(map[string]int)
	return &Trace{Refused: func(limit string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.counts[limit]++
	}}
}

// names returns the limits that have refused something, in order.
func (l *tracedLimits) names() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(l.counts)), " ")
}

// counted returns rooms that count how often they are read.
func counted(reads *atomic.Int64) Rooms {
	return &hookedRooms{Rooms: sizedRooms{}, reading: func(context.Context, string) error { reads.Add(1); return nil }}
}

// requests returns n requests, with the ids 1 to n.
func requests(n int) string {
	var all strings.Builder
	for id := range n {
		all.WriteString(text(usersOf(id + 1)))
	}
	return all.String()
}

// outcome counts the frames that a client got, by their names; all replies count as "ok".
func outcome(names string) map[string]int {
	counts := make(map[string]int)
	for name := range strings.FieldsSeq(strings.ReplaceAll(names, "close ", "close")) {
		if strings.Trim(name, "0123456789") == "" {
			name = "ok"
		}
		counts[name]++
	}
	return counts
}

func counts(ok, limited int, rest ...string) map[string]int {
	want := map[string]int{"ok": ok, "rate_limited": limited}
	for _, name := range rest {
		want[name] = 1
	}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	return want
}

func knownUsers(s *testNode) int {
	return s.sessions.Users.Known()
}

// A client that keeps to the rate is never refused, and one that waits as it is told is served next.
func TestRate_Limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{Rate: 10, Burst: 2})
		v := s.connect(t, "a")
		reply := func(id int) string {
			return fmt.Sprintf(`{"id":%d,"room":"0","version":1,"count":0,"users":[]}`, id)
		}
		ask := func(id int) { v.send(fmt.Sprintf(`{"id":%d,"action":"users","room":"0"}`, id)) }
		for id := range 10 * 60 {
			ask(id)
			v.expect(reply(id))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Hour) // saves no more than the burst
		for id := range 2 {
			ask(id)
			v.expect(reply(id))
		}
		time.Sleep(500 * time.Microsecond)
		ask(7)
		v.expect(`{"id":7,"room":"0","error":{"code":"rate_limited","message":"a connection may send 10 requests a second; wait 100ms","retry":true}}`)
		v.exchange("nonsense", `{"error":{"code":"rate_limited","message":"a connection may send 10 requests a second; wait 100ms","retry":true}}`)
		time.Sleep(100 * time.Millisecond)
		ask(8)
		v.expect(reply(8))
	})
}

// Nonsense counts as requests do.
func TestRate_Nonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		c := s.connectRawAs(t, "a")
		go c.write(strings.Repeat(text("{"), defaultBurst), text(usersOf(1)), closing(1000, ""))
		got, want := outcome(c.readAll()), map[string]int{"bad_request": defaultBurst, "rate_limited": 1, "close1000": 1}
		redistest.ErrorIf(t, !maps.Equal(got, want), "got %v, want %v", got, want)
	})
}

// A flood over one connection is carried out up to the burst, refused, and cut off.
func TestRate_FloodCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		var limits tracedLimits
		s := serve(t, counted(&reads), Options{Trace: limits.trace()})
		c := s.connectRawAs(t, "a")
		go c.write(requests(10_000))
		got, want := outcome(c.readAll()), counts(defaultBurst, session.NoopBurst+1, "close4009")
		redistest.ErrorIf(t, !maps.Equal(got, want) || reads.Load() != defaultBurst,
			"got %v, %d of them from the rooms; want %v", got, reads.Load(), want)
		redistest.Equal(t, "traced:", limits.names(), "flood rate")
	})
}

// A client that is too fast by less than the spare frames' rate is refused and stays.
func TestRate_TooFastClientStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		c := s.connectRawAs(t, "a")
		const seconds = 20
		go func() {
			for range seconds {
				c.write(requests(defaultRate + session.NoopRate))
				time.Sleep(time.Second)
			}
			c.write(closing(1000, ""))
		}()
		got := outcome(c.readAll())
		if ok := got["ok"]; got["close1000"] != 1 || ok < seconds*defaultRate || ok > seconds*defaultRate+defaultBurst {
			t.Errorf("got %v", got)
		}
	})
}

// 500 connections of one user may do no more together than one alone, and another user is served.
func TestRate_ManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections, each = 500, 20
		var limits tracedLimits
		s := serve(t, sizedRooms{}, Options{Trace: limits.trace()})
		var wg sync.WaitGroup
		var mu sync.Mutex
		total := make(map[string]int)
		all := make(chan struct{}) // are connected: who comes later is refused
		for range connections {
			c := s.connectRawAs(t, "a")
			wg.Go(func() {
				var writing sync.WaitGroup
				defer writing.Wait()
				writing.Go(func() {
					<-all
					c.write(requests(each), closing(1000, ""))
				})
				got := outcome(c.readAll())
				mu.Lock()
				defer mu.Unlock()
				for name, n := range got {
					total[name] += n
				}
			})
		}
		redistest.Equal(t, "users are connected:", knownUsers(s), 1)
		close(all)
		other := s.connect(t, "another")
		other.exchange(usersOf(5), `{"id":5,"room":"1","version":1,"count":1,"users":[{"user":"player-0","seat":0}]}`)
		wg.Wait()
		redistest.ErrorIf(t, total["ok"] != defaultBurst || total["close1000"]+total["close4009"] != connections || total["rate_limited"] > session.NoopBurst+connections,
			"got %v", total)
		redistest.Equal(t, "traced:", limits.names(), "flood user_rate")
	})
}

// A user gets no new burst by connecting again, and is forgotten when nothing counts any more.
func TestRate_UsersForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		play := func(n int) map[string]int {
			c := s.connectRawAs(t, "a")
			go c.write(requests(n), closing(1000, ""))
			defer synctest.Wait()
			return outcome(c.readAll())
		}
		got, want := play(defaultBurst), counts(defaultBurst, 0, "close1000")
		redistest.ErrorIf(t, !maps.Equal(got, want), "at first: %v", got)
		for range 10 {
			got, want := play(1), counts(0, 1, "close1000")
			redistest.ErrorIf(t, !maps.Equal(got, want), "connected again: %v", got)
		}
		time.Sleep(time.Second)
		if got, want := play(defaultRate+1), counts(defaultRate, 1, "close1000"); !maps.Equal(got, want) {
			t.Errorf("a second later: %v", got)
		}
		for i := range 1000 {
			s.connectRawAs(t, "a").write(closing(1000, ""))
			if i%100 == 0 {
				s.connect(t, fmt.Sprint("user ", i)).send(usersOf(1))
			}
		}
		synctest.Wait()
		redistest.Equal(t, "users are known:", knownUsers(s), 11)
		for _, c := range s.conns.drain() {
			c.End(websocket.CloseGoingAway, "")
		}
		time.Sleep(time.Minute)
		redistest.Equal(t, "users are known after all have gone:", knownUsers(s), 0)
	})
}

// Requests that are refused because of the user's other connections do not count for their own.
func TestRate_RefusalCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{Rate: 1, Burst: 2})
		first, second := s.connect(t, "a"), s.connect(t, "a")
		for range 2 {
			first.exchange(usersOf(1), `{"id":1,"room":"1","version":1,"count":1,"users":[{"user":"player-0","seat":0}]}`)
		}
		time.Sleep(900 * time.Millisecond)
		for range 5 {
			second.send(usersOf(2))
			second.expect(`{"id":2,"room":"1","error":{"code":"rate_limited","message":"all connections of a user may send 1 requests a second; wait 100ms","retry":true}}`)
		}
		time.Sleep(100 * time.Millisecond)
		second.exchange(usersOf(3), `{"id":3,"room":"1","version":1,"count":1,"users":[{"user":"player-0","seat":0}]}`)
	})
}

// Each limit of requests can be switched off.
func TestRate_Off(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{Rate: -1})
		c := s.connectRawAs(t, "a")
		go c.write(requests(5000), closing(1000, ""))
		got, want := outcome(c.readAll()), counts(5000, 0, "close1000")
		redistest.ErrorIf(t, !maps.Equal(got, want), "got %v", got)
	})
}

// Before a client has shown its token its own requests count, and after that the user's.
func TestRate_UsersWithTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{Rate: 1, Burst: 2})
		token := tokenOf(t, "a", time.Hour)
		for i, want := range []string{`"expires"`, `"expires"`, `"rate_limited","message":"all connections of a user may send 1 requests a second; wait 1s"`} {
			c := s.dialWith(t, "").reading()
			c.send(authFrame(token)) // counts for the connection
			synctest.Wait()
			if got := <-c.frames; !strings.Contains(got, `"expires"`) {
				t.Fatalf("auth: %s", got)
			}
			c.send(authFrame(token)) // counts for both
			synctest.Wait()
			got := <-c.frames
			redistest.ErrorIf(t, !strings.Contains(got, want), "connection %d: %s, want %s", i, got, want)
		}
		redistest.ErrorIf(t, !protocol.NewError(protocol.CodeRateLimited, "").Retry,
			"rate_limited is not worth a retry")
	})
}

// A player who begins rooms and leaves them, as often as the rate allows, fills neither the list of rooms
// nor Redis: no room is listed in which nobody is, after so many there are no further ones for a while,
// and a minute later nothing is left. The others begin rooms as ever, and so does the player in rooms
// that there are.
func TestNewRooms_Bounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := make(chan string, 1000)
		first := start(t, room.Rules{}, Options{MaxNewRooms: 20, Trace: &Trace{Refused: func(limit string) { refused <- limit }}})
		c, other := first.connect(t, "a"), first.connect(t, "b")
		ask := func(c *testClient, action, id string) string {
			c.send(fmt.Sprintf(`{"id":1,"action":%q,"room":%q}`, action, id))
			select {
			case frame := <-c.frames:
				return frame
			case <-time.After(time.Second):
				t.Fatalf("no answer to %s of room %s", action, id)
				return ""
			}
		}
		begun := 0
		for i := range 20 * defaultRate / 2 {
			id := fmt.Sprint("room-", i)
			switch reply := ask(c, "join", id); {
			case strings.Contains(reply, `"version":1`):
				begun++
			case !strings.Contains(reply, `{"code":"rate_limited","message":"there is no such room, and a user may begin 20 rooms a minute; wait `):
				t.Fatal(reply)
			}
			ask(c, "leave", id)
			time.Sleep(2 * time.Second / defaultRate)
		}
		redistest.ErrorIf(t, begun < 20 || begun > 20+20/3+1, "%d rooms were begun in 20 s", begun)
		redistest.ErrorIf(t, len(refused) == 0 || <-refused != LimitNewRooms, "the limit is not counted")
		list, err := first.rooms.Lobby(t.Context())
		redistest.ErrorIf(t, err != nil || len(list.Rooms) != 0, "listed are %d rooms, %v", len(list.Rooms), err)
		keys := first.redis.Keys(t.Context(), "Room:*").Val()
		redistest.ErrorIf(t, len(keys) > begun, "%d rooms have %d keys", begun, len(keys))
		if reply := ask(other, "join", "42"); !strings.Contains(reply, `"version":1`) {
			t.Errorf("another player: %s", reply)
		}
		if reply := ask(c, "join", "42"); !strings.Contains(reply, `"version":2`) {
			t.Errorf("into a room that there is: %s", reply)
		}
		time.Sleep(61 * time.Second)
		if keys := first.redis.Keys(t.Context(), "Room:*").Val(); len(keys) != 2 { // of room 42
			t.Errorf("left are %v", keys)
		}
		if reply := ask(c, "join", "43"); !strings.Contains(reply, `"version":1`) {
			t.Errorf("a minute later: %s", reply)
		}
	})
}

// What begins no room does not count: who joins again, or rooms of others, and who is refused.
func TestNewRooms_Counted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits tracedLimits
		s := start(t, room.Rules{Seating: room.Capacity(1)}, Options{MaxNewRooms: 1, Trace: limits.trace()})
		a, b := s.connect(t, "a"), s.connect(t, "b")
		for range 3 {
			a.tell(`"join"`, `"version":1,"seat":0,"count":1,"settings":{"capacity":1},"users":[{"user":"a","seat":0}]`)
			b.exchange(join42, `{"id":1,"room":"42","error":{"code":"room_full","message":"room 42 is full: 1 of 1 seats taken","retry":false}}`)
		}
		b.send(`{"id":1,"action":"join","room":"43"}`)
		b.expect(`{"id":1,"room":"43","version":1,"seat":0,"count":1,"settings":{"capacity":1},"users":[{"user":"b","seat":0}]}`)
		a.send(`{"id":1,"action":"join","room":"44"}`)
		a.expect(`{"id":1,"room":"44","error":{"code":"rate_limited","message":"there is no such room, and a user may begin 1 rooms a minute; wait 1m0s","retry":true}}`)
		redistest.Equal(t, "traced:", limits.names(), LimitMembers+" "+LimitNewRooms)
	})
}
