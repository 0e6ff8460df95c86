package client

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"roomd/transport/protocol"
)

// What is asked of a room into which the client was moved waits until the server has shown that room:
// before, its session there may not be a member yet.
func TestMove_LeaveWaitsForSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shown := make(chan struct{})
		c := newCast(t, joined(func(s *server) {
			s.list(s.expect("watch 43"), 1)
			s.send(`{"event":"lost","room":"42","reason":"moved","to":"43"}`)
			<-shown
			s.send(`{"event":"snapshot","room":"43","epoch":"e","version":2,"count":1,"users":[{"user":"a","seat":0}]}`)
			s.done(s.expect("leave 43"), 3)
			s.drain()
		}))
		client := c.connect(c.config())
		r := client.mustJoin(t, "42")
		watched, err := client.Watch(t.Context(), "43")
		if err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		left := make(chan error, 1)
		go func() { left <- watched.Leave(t.Context()) }()
		synctest.Wait()
		conn := client.session.conn
		conn.mu.Lock()
		if len(conn.calls) != 0 {
			t.Error("the leave was sent before the snapshot came")
		}
		conn.mu.Unlock()
		close(shown)
		if err := <-left; err != nil || watched.View().Member || watched.Err() != nil {
			t.Error(err, watched.View(), watched.Err())
		}
	})
}

// The server takes the seat away from a client that also watches, and moves it to other rooms.
func TestMove_LostAndMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, joined(func(s *server) {
			s.list(s.expect("watch 42"), 1, "a")
			s.send(`{"event":"lost","room":"42","reason":"kicked","text":"too loud"}`)
			s.change("42", 2, `{"type":"leave","user":"a","seat":0,"reason":"kicked"}`)
			s.list(s.expect("join 7"), 1, "a")
			s.send(`{"event":"lost","room":"7","reason":"moved","to":"8"}`)
			s.send(`{"event":"snapshot","room":"8","epoch":"e","version":3,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
			s.change("8", 4, `{"type":"data","data":4}`)
			s.send(`{"event":"lost","room":"8","reason":"moved","to":"9"}`)
			s.cut() // before the snapshot
		}), func(s *server) {
			rooms := []string{s.expect2("watch 42", "join 9"), s.expect2("watch 42", "join 9")}
			if slices.Sort(rooms); !slices.Equal(rooms, []string{"join 9", "watch 42"}) {
				t.Errorf("restored %q", rooms)
			}
			s.drain()
		})
		client := c.connect(c.config())
		r := client.mustJoin(t, "42")
		all := read(r)
		if same, err := client.Watch(t.Context(), "42"); err != nil || same != r {
			t.Fatal(err)
		}
		synctest.Wait()
		if v := r.View(); v.Member || !v.Watching || v.Version != 2 || r.Err() != nil {
			t.Errorf("%+v, %v", v, r.Err())
		}
		seven := client.mustJoin(t, "7")
		<-seven.Done()
		var lost *LostError
		if !errors.As(seven.Err(), &lost) || *lost != (LostError{Room: "7", Reason: protocol.ReasonMoved, To: "8"}) {
			t.Error(seven.Err())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if client.Room("7") != nil || client.Room("8") != nil {
			t.Error("a room that was lost is still there")
		}
		if nine := client.Room("9"); nine == nil || nine.View().Version != 5 {
			t.Errorf("room 9 is %+v", nine)
		}
		client.Close()
		wantRead(t, all, "snapshot  1", "lost kicked 1", "leave akicked 2", "snapshot  5")
	})
}

// expect2 reads one of two requests, answers with a list at version 5, and returns it.
func (s *server) expect2(one, other string) string {
	req, _ := s.next()
	got := req.Action + " " + req.Room
	if got != one && got != other || req.Seat != nil || req.Expect != nil {
		s.t.Errorf("the server got %+v", req)
	}
	s.list(req, 5, "a")
	return got
}
