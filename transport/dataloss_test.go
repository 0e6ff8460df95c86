package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Redis loses one key of a room, or both. The connected users are still members, or are again,
// on seats of their own, whether or not somebody joins meanwhile.
func TestDataLoss_OneKey(t *testing.T) {
	t.Parallel()
	for _, lost := range [][]string{{"Room:42:Users"}, {"Room:42:Meta"}, {"Room:42:Users", "Room:42:Meta"}} {
		for _, busy := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				first, second, a, b := twoNodes(t, room.Rules{}, Options{})
				time.Sleep(2 * time.Minute)
				first.redis.Del(t.Context(), lost...)
				want := "a b"
				if busy {
					c := second.connect(t, "c")
					c.send(join42)
					want = "a b c"
				}
				time.Sleep(5 * time.Minute)
				s, err := second.rooms.Read(t.Context(), "42")
				redistest.OK(t, err)
				users, seats := make(map[string]bool), make(map[int]bool)
				for _, o := range s.Users() {
					users[o.User], seats[o.Seat] = true, true
				}
				if !users["a"] || !users["b"] || users["c"] != busy || len(users) != len(seats) || s.Count() != len(users) {
					t.Errorf("without %v, busy %v: in the room are %v, want %s", lost, busy, s.Users(), want)
				}
				for _, v := range []*testClient{a, b} {
					select {
					case err := <-v.closed:
						t.Errorf("without %v, busy %v: a connection was closed: %v", lost, busy, err)
					default:
					}
				}
			})
		}
	}
}

// Redis has an old copy of a room again, with a member who has left since. That member stays
// away, connected users stay in, and a user in the grace keeps the seat.
func TestDataLoss_Leave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{}, Options{Grace: time.Hour})
		gone := first.connect(t, "gone")
		gone.send(join42)
		time.Sleep(time.Second)
		gone.cut()
		time.Sleep(time.Second)
		users := first.redis.HGetAll(t.Context(), "Room:42:Users").Val()
		meta := first.redis.HGetAll(t.Context(), "Room:42:Meta").Val()
		b.send(`{"id":2,"action":"leave","room":"42"}`)
		time.Sleep(time.Second)
		first.redis.HSet(t.Context(), "Room:42:Users", users)
		first.redis.HSet(t.Context(), "Room:42:Meta", meta)
		a.send(`{"id":2,"action":"users","room":"42"}`) // a read notices
		time.Sleep(5 * time.Minute)                     // a node without members in the room looks from time to time
		s, err := second.rooms.Read(t.Context(), "42")
		redistest.OK(t, err)
		names := make(map[string]bool)
		for _, o := range s.Users() {
			names[o.User] = true
		}
		if !names["a"] || names["b"] || !names["gone"] {
			t.Errorf("in the room are %v", s.Users())
		}
	})
}
