package api

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/auth"
)

// lobbyWatch reads the events of one who watches the lobby.
type lobbyWatch struct {
	t     *testing.T
	lines chan string // closed at the end
}

func (w *world) watch(query, token string, header ...string) *lobbyWatch {
	w.t.Helper()
	server := httptest.NewServer(w.api.Public())
	w.t.Cleanup(server.Close)
	w.t.Cleanup(w.api.EndWatches) // before
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, server.URL+query, nil)
	redistest.OK(w.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(req)
	redistest.OK(w.t, err)
	w.t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%s, %s", answer.Status, answer.Header.Get("Content-Type"))
	}
	l := &lobbyWatch{w.t, make(chan string, 100)}
	go func() {
		defer close(l.lines)
		for s := bufio.NewScanner(answer.Body); s.Scan(); {
			if s.Text() != "" {
				l.lines <- s.Text()
			}
		}
	}()
	return l
}

// expect waits for an event with some parts of its data.
func (l *lobbyWatch) expect(event string, parts ...string) {
	l.t.Helper()
	if line := redistest.Receive(l.t, l.lines, "an event"); line != "event: "+event {
		l.t.Errorf("%s instead of %s", line, event)
	}
	data := redistest.Receive(l.t, l.lines, "data")
	for _, part := range parts {
		if !strings.Contains(data, part) {
			l.t.Errorf("%s without %s", data, part)
		}
	}
}

// follow waits for an event with a text. None before may have one of the others.
func (l *lobbyWatch) follow(text string, others ...string) {
	l.t.Helper()
	for {
		line := redistest.Receive(l.t, l.lines, text)
		for _, other := range others {
			if strings.Contains(line, other) {
				l.t.Errorf("%s has %s", line, other)
			}
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

// Who watches the lobby gets the rooms that a filter has, as they change, come and go, and hears of no others.
func TestWatchLobby(t *testing.T) {
	w := newWorld(t, true, Options{Rate: -1})
	configure := func(id string, s room.Settings) {
		_, err := w.rooms.Do(t.Context(), id, room.Configure{Settings: s})
		redistest.OK(t, err)
	}
	fast := room.Settings{Capacity: 2, Labels: `{"mode":"fast"}`}
	configure("a1", fast)
	configure("a2", room.Settings{Capacity: 2})
	l := w.watch("/api/rooms?watch&label=mode:fast", sign(t, "p", auth.RolePlayer, "a*"))
	l.expect("rooms", `{"rooms":[{"room":"a1","count":0,"capacity":2,"free":2,"closed":false,"labels":{"mode":"fast"}`)
	w.join("a2", "x")     // of no interest
	configure("b1", fast) // not for this token
	w.join("a1", "x")
	l.follow(`{"room":"a1","count":1,"capacity":2,"free":1,"closed":false,"labels":{"mode":"fast"},"since":`, "a2", "b1")
	configure("a3", fast)
	l.follow(`{"room":"a3","count":0,"capacity":2,"free":2,"closed":false,"labels":{"mode":"fast"},"since":`, "a2", "b1") // as GET has it
	configure("a3", room.Settings{Capacity: 2})
	l.expect("changes", `"rooms":[]`, `"gone":["a3"]`)
	w.api.EndWatches()
	for line := range l.lines {
		t.Errorf("after all: %s", line)
	}
	for _, query := range []string{"&sort=age", "&after=x", "&limit=3", "&label=x"} {
		w.do(call{method: "GET", path: "/api/rooms?watch" + query, token: sign(t, "p", auth.RolePlayer), status: 400})
	}
}

// A list of more rooms than an event may have comes in parts, and each but the last says so.
func TestWatchLobby_Parts(t *testing.T) {
	recorder := httptest.NewRecorder()
	s := &lobbyStream{events: &eventStream{recorder, http.NewResponseController(recorder)}}
	many := lobbyEvent{Rooms: make([]listed, 2*maxEvent+1), Gone: []string{"a"}}
	redistest.OK(t, s.send("rooms", many))
	redistest.OK(t, s.send("changes", lobbyEvent{Gone: []string{"a"}}))
	var got []string
	for event := range strings.SplitSeq(strings.TrimSpace(recorder.Body.String()), "\n\n") {
		name, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		var e lobbyEvent
		redistest.OK(t, json.Unmarshal([]byte(data), &e))
		got = append(got, fmt.Sprint(name, " ", len(e.Rooms), e.Gone, e.More))
	}
	redistest.Equal(t, "events", strings.Join(got, ", "), "rooms 1000 [a] true, changes 1000 [] true, changes 1 [] false, changes 0 [a] false")
}
