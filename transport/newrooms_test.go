package transport

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

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
		s := start(t, room.Rules{Seating: room.Capacity(1)}, Options{MaxNewRooms: 1})
		a, b := s.connect(t, "a"), s.connect(t, "b")
		for range 3 {
			a.tell(`"join"`, `"version":1,"seat":0,"count":1,"settings":{"capacity":1},"users":[{"user":"a","seat":0}]`)
			b.exchange(join42, `{"id":1,"room":"42","error":{"code":"room_full","message":"room 42 is full: 1 of 1 seats taken","retry":false}}`)
		}
		b.send(`{"id":1,"action":"join","room":"43"}`)
		b.expect(`{"id":1,"room":"43","version":1,"seat":0,"count":1,"settings":{"capacity":1},"users":[{"user":"b","seat":0}]}`)
		a.send(`{"id":1,"action":"join","room":"44"}`)
		a.expect(`{"id":1,"room":"44","error":{"code":"rate_limited","message":"there is no such room, and a user may begin 1 rooms a minute; wait 1m0s","retry":true}}`)
	})
}
