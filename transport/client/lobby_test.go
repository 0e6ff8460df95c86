package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// lobbyServer answers one request for the list of rooms after the other by its scripts; the last one is for all that follow.
type lobbyServer struct {
	t *testing.T

	mu       sync.Mutex
	scripts  []func(*lobbyAnswer) // guarded by mu
	requests []*http.Request      // guarded by mu
}

// lobbyAnswer is one answer.
type lobbyAnswer struct {
	t *testing.T
	w http.ResponseWriter
	r *http.Request
}

func (s *lobbyServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	next := s.scripts[0]
	if len(s.scripts) > 1 {
		s.scripts = s.scripts[1:]
	}
	s.mu.Unlock()
	next(&lobbyAnswer{s.t, w, r})
}

func (s *lobbyServer) asked() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// tell sends an event. What is wrong with the sending is that the client has gone.
func (a *lobbyAnswer) tell(event, data string) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(a.w, ":\n\nevent: %s\ndata: %s\n\n", event, data)
	_ = http.NewResponseController(a.w).Flush()
}

func (a *lobbyAnswer) stay() { <-a.r.Context().Done() }

func (a *lobbyAnswer) refuse(status int, code string) {
	a.w.Header().Set("Content-Type", "application/problem+json")
	a.w.WriteHeader(status)
	_, _ = fmt.Fprintf(a.w, `{"type":"urn:roomd:problem:%[1]s","status":%[2]d,"detail":"no","code":%[1]q,"retry":true}`, code, status)
}

// rooms is a script that tells of rooms, and stays.
func rooms(list string) func(*lobbyAnswer) {
	return func(a *lobbyAnswer) {
		a.tell("rooms", `{"rooms":[`+list+`]}`)
		a.stay()
	}
}

func refuses(status int, code string) func(*lobbyAnswer) {
	return func(a *lobbyAnswer) { a.refuse(status, code) }
}

// startLobby connects a client to a server whose lobby has scripts.
func startLobby(t *testing.T, change func(*Config), scripts ...func(*lobbyAnswer)) (*Client, *lobbyServer) {
	t.Helper()
	s := &lobbyServer{t: t, scripts: scripts}
	c := newCast(t, func(s *server) { s.drain() })
	c.lobby = s.serve
	cfg := c.config()
	if change != nil {
		change(&cfg)
	}
	return c.connect(cfg), s
}

// lobbyReader reads an iteration.
type lobbyReader struct {
	t      *testing.T
	next   func() (Lobby, error, bool)
	cancel func()
}

func readLobby(t *testing.T, c *Client, ctx context.Context, q LobbyQuery) *lobbyReader {
	ctx, cancel := context.WithCancel(ctx)
	next, stop := iter.Pull2(c.Lobby(ctx, q))
	t.Cleanup(func() { stop(); cancel() })
	return &lobbyReader{t, next, cancel}
}

// expect reads a list, as ids and counts, within ten minutes of virtual time.
func (r *lobbyReader) expect(want string) {
	r.t.Helper()
	defer time.AfterFunc(10*time.Minute, r.cancel).Stop()
	list, err, ok := r.next()
	got := fmt.Sprint(err)
	if err == nil {
		var ids []string
		for _, room := range list.Rooms {
			ids = append(ids, fmt.Sprint(room.Room, ":", room.Count))
		}
		got = strings.Join(ids, " ")
		if list.Stale {
			got += " (stale)"
		}
	}
	if !ok {
		got = "end"
	}
	redistest.ErrorIf(r.t, got != want, "got %q, want %q", got, want)
}

// What a server refuses for good ends the iteration, with the code, and is not asked again.
func TestLobby_Refused(t *testing.T) {
	for _, tt := range []struct {
		script func(*lobbyAnswer)
		want   string
	}{
		{refuses(http.StatusBadRequest, protocol.CodeBadRequest), "client: lobby of http://memory/api/rooms: HTTP 400 Bad Request: bad_request: no"},
		{refuses(http.StatusForbidden, protocol.CodeForbidden), "client: lobby of http://memory/api/rooms: HTTP 403 Forbidden: forbidden: no"},
		{refuses(http.StatusUnauthorized, protocol.CodeUnauthorized), "client: lobby of http://memory/api/rooms: HTTP 401 Unauthorized: unauthorized: no"},
		{func(a *lobbyAnswer) { http.Redirect(a.w, a.r, "http://elsewhere/", http.StatusFound) }, "client: lobby of http://memory/api/rooms: HTTP 302 Found: the server does not speak roomd.v1"},
		{func(a *lobbyAnswer) { _, _ = a.w.Write([]byte("<html>")) }, `client: lobby of http://memory/api/rooms: the server does not speak roomd.v1 (its type: "text/html")`},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := startLobby(t, nil, tt.script)
			r := readLobby(t, c, t.Context(), LobbyQuery{})
			r.expect(tt.want)
			r.expect("end")
			time.Sleep(time.Hour)
			n := len(s.asked())
			redistest.ErrorIf(t, n != 1, "%s: asked %d times", tt.want, n)
		})
	}
}

// An iteration ends at any moment: by a break, by its context, and by the end of the client, also inside the loop.
func TestLobby_Ends(t *testing.T) {
	hangs := func(a *lobbyAnswer) { a.stay() }
	fails := refuses(http.StatusServiceUnavailable, protocol.CodeUnavailable)
	for name, script := range map[string]func(*lobbyAnswer){"hangs": hangs, "fails": fails, "lists": rooms("")} {
		for _, by := range []string{"context", "close", "loop"} {
			t.Run(name+" "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, _ := startLobby(t, nil, script)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					end := map[string]func(){"context": cancel, "close": c.Close, "loop": func() {}}[by]
					time.AfterFunc(12345*time.Millisecond, end)
					var last error
					for _, err := range c.Lobby(ctx, LobbyQuery{}) {
						if last = err; by == "loop" {
							c.Close()
							break
						}
					}
					redistest.FatalIf(t, by == "loop" && name != "lists", "the iteration has ended by itself")
					if closed := errors.Is(last, ErrClosed); closed != (by == "close") || by != "close" && last != nil {
						t.Errorf("ended with %v", last)
					}
				})
			})
			if by == "close" && name != "lists" {
				break // nothing is shown, so there is no loop
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c, _ := startLobby(t, nil, rooms(""))
		c.Close()
		r := readLobby(t, c, t.Context(), LobbyQuery{})
		r.expect(c.Err().Error())
		r.expect("end")
	})
}
