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

	"roomd/room"
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
	if got != want {
		r.t.Errorf("got %q, want %q", got, want)
	}
}

// The iteration asks for the rooms of its query, and shows each list as a whole: what comes in parts, rooms that
// change, come and go, and none.
func TestLobby_Lists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		c, s := startLobby(t, nil, func(a *lobbyAnswer) {
			a.tell("rooms", `{"rooms":[{"room":"c","count":1,"capacity":2,"free":1,"closed":false,"labels":{"mode":"fast"},"since":5}],"more":true}`)
			a.tell("changes", `{"rooms":[{"room":"b","count":3},{"room":"a","count":1,"since":7}]}`)
			<-step
			a.tell("weather", `{"rain":true}`)
			a.tell("changes", `{"rooms":[{"room":"a","count":4}],"gone":["b"],"more":true}`)
			a.tell("changes", `{"rooms":[{"room":"d","count":4}]}`)
			<-step
			a.tell("changes", `{"rooms":[],"gone":["a","c","d"]}`)
			a.stay()
		})
		r := readLobby(t, c, t.Context(), LobbyQuery{Prefix: "t-", Contains: "x", Labels: map[string]string{"mode": "fast"}, Free: 2, Sort: LobbyByMembers})
		r.expect("b:3 a:1 c:1")
		step <- struct{}{}
		r.expect("a:4 d:4 c:1")
		step <- struct{}{}
		r.expect("")
		if got := s.asked()[0].URL.RawQuery; got != "contains=x&free=2&label=mode%3Afast&prefix=t-&watch=" {
			t.Errorf("asked for %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		const list = `{"room":"b","since":3},{"room":"a","labels":{"mode":"fast"},"since":9},{"room":"z","since":9},{"room":"new"}`
		c, _ := startLobby(t, nil, rooms(list))
		readLobby(t, c, t.Context(), LobbyQuery{}).expect("a:0 b:0 new:0 z:0")
		readLobby(t, c, t.Context(), LobbyQuery{Sort: LobbyByAge}).expect("new:0 a:0 z:0 b:0")
		for l := range c.Lobby(t.Context(), LobbyQuery{}) {
			if l.Rooms[0] != (LobbyRoom{Room: "a", Labels: room.MakeLabels(map[string]string{"mode": "fast"}), Since: 9}) {
				t.Errorf("%+v", l.Rooms[0])
			}
			break
		}
	})
}

// Whatever ends the answer, the client asks the next address, and shows meanwhile that the list is old, but only if no
// server answers.
func TestLobby_ConnectsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := startLobby(t, func(cfg *Config) { cfg.Addresses = []string{"ws://one/ws", "ws://two/game/ws?x=1"} },
			func(a *lobbyAnswer) { // the node stops
				a.tell("rooms", `{"rooms":[{"room":"a","count":1}]}`)
				time.Sleep(10 * time.Second)
			},
			func(a *lobbyAnswer) {
				a.tell("rooms", `{"rooms":[{"room":"a","count":2}]}`)
				time.Sleep(time.Second)
				panic(http.ErrAbortHandler) // the node dies
			},
			refuses(http.StatusServiceUnavailable, protocol.CodeUnavailable),
			func(a *lobbyAnswer) { a.w.WriteHeader(http.StatusNotFound) }, // a proxy, while servers restart
			func(a *lobbyAnswer) {
				a.tell("rooms", `{"rooms":[{"room":"b"`) // is cut off: not one of its rooms counts
			},
			func(a *lobbyAnswer) {
				a.tell("rooms", `{"rooms":[{"room":"b","count":1}],"more":true}`) // nor of half a list
			},
			func(a *lobbyAnswer) { // the network is gone by and by, and nobody says so
				for range 10 {
					a.tell("rooms", `{"rooms":[{"room":"a","count":3}]}`)
					time.Sleep(lobbySilence - time.Second)
				}
				a.stay()
			},
			rooms(`{"room":"z","count":4}`))
		r := readLobby(t, c, t.Context(), LobbyQuery{})
		r.expect("a:1")
		r.expect("a:2")
		r.expect("a:2 (stale)")
		time.Sleep(25 * time.Second)
		for range 10 {
			r.expect("a:3")
		}
		began := time.Now()
		r.expect("z:4")
		if silent := time.Since(began); silent > lobbySilence+c.cfg.BackoffCap {
			t.Errorf("a silent server was believed for %v", silent)
		}
		before := ""
		for _, asked := range s.asked() {
			at := asked.Host + asked.URL.Path
			if at == before || at != "one/api/rooms" && at != "two/game/api/rooms" || asked.URL.RawQuery != "watch=" {
				t.Errorf("asked %s after %s", at, before)
			}
			before = at
		}
	})
}

// A token is asked for for each connection. One that has expired ends the answer, and one that is refused is asked for
// once more.
func TestLobby_Token(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := 0
		expires := func(a *lobbyAnswer) {
			a.tell("rooms", `{"rooms":[{"room":"a","count":1}]}`)
			time.Sleep(10 * time.Second)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		refused := refuses(http.StatusUnauthorized, protocol.CodeUnauthorized)
		c, s := startLobby(t, func(cfg *Config) {
			cfg.Token = func(context.Context) (string, error) { given++; return fmt.Sprint("token", given), nil }
		}, expires, refused, expires, refused)
		r := readLobby(t, c, ctx, LobbyQuery{})
		r.expect("a:1")
		r.expect("a:1 (stale)")
		r.expect("a:1")
		r.expect("a:1 (stale)")
		if _, err, _ := r.next(); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("after two tokens that are refused: %v", err)
		}
		r.expect("end")
		for i, asked := range s.asked() {
			if got := asked.Header.Get("Authorization"); got != fmt.Sprint("Bearer token", i+2) {
				t.Errorf("request %d has %s", i, got)
			}
		}
	})
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
			if n := len(s.asked()); n != 1 {
				t.Errorf("%s: asked %d times", tt.want, n)
			}
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
					if by == "loop" && name != "lists" {
						t.Fatal("the iteration has ended by itself")
					}
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

// A reader who is slow is shown the newest list, and holds nobody up.
func TestLobby_SlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := startLobby(t, nil, func(a *lobbyAnswer) {
			for n := range 1000 {
				a.tell("rooms", fmt.Sprintf(`{"rooms":[{"room":"a","count":%d}]}`, n))
			}
			a.stay()
		})
		seen := 0
		for l := range c.Lobby(t.Context(), LobbyQuery{}) {
			time.Sleep(time.Second)
			synctest.Wait()
			if seen++; l.Rooms[0].Count == 999 {
				break
			}
		}
		if seen > 2 {
			t.Errorf("%d lists were shown", seen)
		}
	})
}
