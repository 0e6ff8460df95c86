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
