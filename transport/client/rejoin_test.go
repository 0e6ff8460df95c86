package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// drain reads until the client has closed, and expects no request.
func quiet(s *server) {
	if req, ok := s.next(); ok {
		s.t.Errorf("the server got %+v", req)
	}
}

// read collects what an iteration yields: types, with users, and versions.
func read(r *Room) <-chan []string {
	all := make(chan []string, 1)
	subscribed := make(chan struct{})
	go func() {
		var got []string
		for c := range r.Changes(context.Background()) {
			if got == nil {
				close(subscribed)
			}
			got = append(got, strings.TrimSpace(fmt.Sprint(c.Type, " ", c.User, c.Reason, " ", c.Version)))
		}
		all <- got
	}()
	<-subscribed
	return all
}

func wantRead(t *testing.T, all <-chan []string, want ...string) {
	t.Helper()
	if got := <-all; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

func TestReconnect_Rejoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t,
			joined(func(s *server) {
				s.expect("watch 43")
				s.cut()
			}),
			func(s *server) {
				for range 2 { // in any order
					if req, _ := s.next(); req.Action == protocol.ActionWatch && req.Room == "43" {
						s.list(req, 2)
					} else if req.Expect == nil || *req.Expect != 1 || req.Room != "42" {
						t.Errorf("the server got %+v", req)
					} else {
						s.list(req, 5, "a", "b")
					}
				}
				s.change("42", 6, `{"type":"leave","user":"b","seat":1,"reason":"left"}`)
				s.refuse(s.expect("leave 42"), "busy")
				s.done(s.expect("leave 42"), 7)
				s.done(s.expect("unwatch 43"), 7)
				quiet(s)
			})
		client := c.connect(c.config())
		r := client.mustJoin(t, "42")
		all := read(r)
		// The watch is sent again, as the join is.
		watched, err := client.Watch(t.Context(), "43")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if v := r.View(); v.Version != 6 || len(v.Users) != 1 || !v.Member || client.State() != Connected {
			t.Errorf("%+v, %v", v, client.State())
		}
		if err := r.Leave(t.Context()); !errors.Is(err, protocol.ErrBusy) {
			t.Error(err)
		}
		if err := r.Leave(t.Context()); err != nil || r.Err() != ErrLeft || client.Room("42") != nil {
			t.Error(err, r.Err())
		}
		if err := r.Ready(t.Context(), true); !errors.Is(err, ErrLeft) {
			t.Error(err)
		}
		if err := watched.Unwatch(t.Context()); err != nil || watched.Err() != ErrUnwatched {
			t.Error(err, watched.Err())
		}
		wantRead(t, all, "snapshot  1", "snapshot  5", "leave bleft 6")
	})
}

// What the server says to a client that joins again, and what becomes of the room.
func TestReconnect_RejoinRefused(t *testing.T) {
	t.Parallel()
	conflict := `{"id":%d,"room":"42","epoch":"e","version":6,%s,"error":{"code":"conflict","message":"no","retry":false}}`
	for _, tt := range []struct {
		name   string
		answer func(*server, protocol.Request)
		want   LostError
		then   script
	}{
		{"seat taken", func(s *server, req protocol.Request) { s.refuse(req, "seat_taken") }, LostError{Reason: "seat_taken", Text: "no"}, quiet},
		{"kicked meanwhile", func(s *server, req protocol.Request) {
			s.send(conflict, req.ID, `"reason":"kicked","text":"too loud"`)
		}, LostError{Reason: "kicked", Text: "too loud"}, quiet},
		{"moved meanwhile", func(s *server, req protocol.Request) { s.send(conflict, req.ID, `"reason":"moved","to":"43"`) },
			LostError{Reason: "moved", To: "43"}, quiet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCast(t, joined((*server).cut), func(s *server) {
					// First the server cannot do it now.
					for _, code := range []string{"busy", "unavailable", "unknown", "rate_limited", "duplicate_user"} {
						s.refuse(s.expect("join 42@0!1"), code)
					}
					tt.answer(s, s.expect("join 42@0!1"))
					tt.then(s)
				})
				client := c.connect(c.config())
				r := client.mustJoin(t, "42")
				all := read(r)
				<-r.Done()
				synctest.Wait()
				var lost *LostError
				if !errors.As(r.Err(), &lost) {
					t.Fatal(r.Err())
				}
				got := *lost
				got.Err = nil
				if tt.want.Room = "42"; got != tt.want || client.Room("42") != nil {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
				wantRead(t, all, "snapshot  1", "lost "+tt.want.Reason+" 1")
			})
		})
	}
}

// A request whose reply is lost is sent again if that does no harm.
func TestReconnect_ReplyLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t,
			func(s *server) { s.expect("users 7"); s.cut() },
			func(s *server) {
				s.list(s.expect("users 7"), 3)
				s.expect("kick 42")
				s.cut()
			},
			func(s *server) {
				s.list(s.expect("join 42"), 1, "a")
				s.expect("leave 42")
				s.cut()
			},
			func(s *server) {
				s.list(s.expect("join 42@0!1"), 1, "a")
				s.done(s.expect("leave 42"), 2)
				s.list(s.expect("join 42"), 3, "a")
				s.expect("set 42")
				s.cut()
			},
			func(s *server) {
				s.list(s.expect("join 42@0!3"), 3, "a")
				s.expect("say 42")
				s.close(websocket.CloseGoingAway, "")
			},
			func(s *server) {
				s.list(s.expect("join 42@0!3"), 3, "a")
				quiet(s)
			})
		client := c.connect(c.config())
		if reply, err := client.Users(t.Context(), "7"); err != nil || reply.Version != 3 {
			t.Error(reply, err)
		}
		if _, err := client.Kick(t.Context(), "42", "b", "", 0); !errors.Is(err, protocol.ErrUnknown) {
			t.Error(err)
		}
		r := client.mustJoin(t, "42")
		if err := r.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		r = client.mustJoin(t, "42")
		if err := r.Set(t.Context(), 1); !errors.Is(err, protocol.ErrUnknown) || !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := r.Say(t.Context(), Message{Text: "x"}); !errors.Is(err, protocol.ErrUnknown) {
			t.Error(err)
		}
		time.Sleep(time.Minute) // of virtual time
		synctest.Wait()
		if r.Err() != nil || len(c.attempts().dialed) != 6 || client.State() != Connected {
			t.Error(r.Err(), c.attempts().dialed)
		}
	})
}

// A request waits for a connection as long as its context allows.
func TestReconnect_WaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, joined((*server).cut), nil) // then a bad gateway for ever
		client := c.connect(c.config())
		r := client.mustJoin(t, "42")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		err := r.Set(ctx, 1)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, protocol.ErrUnknown) || time.Since(begin) != time.Minute || client.State() != Reconnecting {
			t.Errorf("after %v: %v, %v", time.Since(begin), err, client.State())
		}
	})
}
