package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"roomd/room"
)

// Redis loses one key of a room, or a field of it. Those who are connected are members
// still, or again, on seats of their own, whoever notices and however late.
func TestARoomThatIsNotWhole(t *testing.T) {
	for _, lost := range [][]string{{"Room:42:Users"}, {"Room:42:Meta"}, {"Room:42:Users", "Room:42:Meta"}} {
		for _, busy := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				first, second, a, b := twoNodes(t, room.Rules{}, Options{})
				time.Sleep(10 * time.Minute)
				first.redis.Del(t.Context(), lost...)
				want := "a b"
				if busy {
					if _, err := second.rooms.Do(t.Context(), "42", room.Join("c", "c")); err != nil {
						t.Fatal(err)
					}
					want = "a b c"
				}
				time.Sleep(5 * time.Minute)
				s, err := second.rooms.Read(t.Context(), "42")
				if err != nil {
					t.Fatal(err)
				}
				users, seats := make(map[string]bool), make(map[int]bool)
				for _, o := range s.Users() {
					users[o.User], seats[o.Seat] = true, true
				}
				if !users["a"] || !users["b"] || users["c"] != busy || len(users) != len(seats) || s.Count() != len(users) {
					t.Errorf("without %v, busy %v: in the room are %v, want %s", lost, busy, s.Users(), want)
				}
				for _, v := range []*visitor{a, b} {
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
