package client

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A client of many rooms, or of many requests at once, that is told to slow down does: a server closes the connection of one
// that goes on regardless.
func TestReconnect_ManyRooms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const total, burst, rate = 400, 100, 50
		refused, worst := 0, 0 // worst is against what a server lets pass: 256 at once, 100 a second
		c := newCast(t, func(s *server) {
			for range total {
				req, _ := s.next()
				s.list(req, 1, "a")
			}
			s.cut()
		}, func(s *server) {
			begin, done := time.Now(), 0
			for req, ok := s.next(); ok; req, ok = s.next() {
				if done < burst+int(time.Since(begin).Seconds()*rate) {
					done++
					s.list(req, 2, "a")
					continue
				}
				refused++
				worst = max(worst, refused-int(time.Since(begin).Seconds()*100))
				s.refuse(req, "rate_limited")
			}
		})
		client := c.connect(c.config())
		for i := range total {
			client.mustJoin(t, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i := range total {
			if r := client.Room(fmt.Sprint(i)); r == nil || r.View().Version != 2 {
				t.Fatalf("room %d is not back", i)
			}
		}
		var asking sync.WaitGroup
		for range total {
			asking.Go(func() {
				if _, err := client.Users(t.Context(), "0"); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		if refused == 0 || worst > 256 {
			t.Errorf("%d requests over the rate, up to %d at once", refused, worst)
		}
	})
}

// After a reconnect the list counts, also if it has the same version: a failover may have changed what is in it.
func TestReconnect_SameVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, joined((*server).cut), func(s *server) {
			s.list(s.expect("join 42@0!1"), 1, "a", "b")
			s.drain()
		})
		client := c.connect(c.config())
		r := client.mustJoin(t, "42")
		all := read(r)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(r.View().Users) != 2 {
			t.Errorf("%+v", r.View())
		}
		client.Close()
		wantRead(t, all, "snapshot  1", "snapshot  1")
	})
}
