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

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"

	"github.com/gorilla/websocket"
)

// drain reads until the client has closed, and expects no request.
func quiet(s *server) {
	req, ok := s.next()
	redistest.ErrorIf(s.t, ok, "the server got %+v", req)
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
	got := <-all
	redistest.ErrorIf(t, !slices.Equal(got, want), "read %q, want %q", got, want)
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
		reply, err := client.Users(t.Context(), "7")
		redistest.ErrorIf(t, err != nil || reply.Version != 3, "%v %v", reply, err)
		if _, err := client.Kick(t.Context(), "42", "b", "", 0); !errors.Is(err, protocol.ErrUnknown) {
			t.Error(err)
		}
		r := client.mustJoin(t, "42")
		redistest.OK(t, r.Leave(t.Context()))
		r = client.mustJoin(t, "42")
		if err := r.Set(t.Context(), 1); !errors.Is(err, protocol.ErrUnknown) || !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		redistest.ErrorIs(t, "the error is", r.Say(t.Context(), Message{Text: "x"}), protocol.ErrUnknown)
		time.Sleep(time.Minute) // of virtual time
		synctest.Wait()
		redistest.ErrorIf(t, r.Err() != nil || len(c.attempts().dialed) != 6 || client.State() != Connected,
			"%v %v", r.Err(), c.attempts().dialed)
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
				redistest.FatalIf(t, !errors.As(r.Err(), &lost), "%v", r.Err())
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
