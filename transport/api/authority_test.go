package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// must sends a request to the operators' address, which is to succeed.
func (w *world) must(method, path, body string, want ...string) reply {
	w.t.Helper()
	return w.do(call{method: method, path: path, body: body, operator: true, status: 200, want: want})
}

// hear returns the changes of a room from now on.
func (w *world) hear(id string) <-chan room.Change {
	w.t.Helper()
	heard := make(chan room.Change, 100)
	stop, err := w.players.Watch(w.t.Context(), id, func(e *room.Event) {
		for _, c := range e.Changes {
			heard <- c
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(stop)
	return heard
}

// A user who is kicked leaves, and stays out for as long as a ban says; all do when the room is closed.
func TestKick_AndBan(t *testing.T) {
	w := newWorld(t, false, Options{})
	w.join("42", "a", "b", "ü")
	heard := w.hear("42")
	w.must("POST", "/api/rooms/42/kick", `{"user":"a","text":"rude"}`, `"version":4,"count":2`)
	if c := redistest.Receive(t, heard, "the kick"); c.Type != room.KindLeave || c.User != "a" || c.Reason != "kicked" || c.Text != "rude" {
		t.Errorf("the others hear %+v", c)
	}
	w.join("42", "a")
	w.must("POST", "/api/rooms/42/kick", `{"user":"ü","ban":60}`, `"count":2`)
	if _, err := w.players.Do(t.Context(), "42", room.Join{User: "ü", Session: "s"}); !errors.Is(err, room.ErrBanned) || !strings.Contains(err.Error(), " 60 s") && !strings.Contains(err.Error(), " 59 s") {
		t.Errorf("a banned user: %v", err)
	}
	w.must("DELETE", "/api/rooms/42/bans/%C3%BC", "")
	w.join("42", "ü")
	w.must("POST", "/api/rooms/42/kick", `{"user":"a/b","ban":315360000}`)
	w.must("DELETE", "/api/rooms/42/bans/a%2Fb", "")
	w.join("42", "a/b")
	for body, field := range map[string]string{
		`{"user":"a","ban":0}`: "ban", `{"user":"a","ban":315360001}`: "ban", `{"user":"a","ban":-1}`: "ban", `{"user":""}`: "user", `{"user":7}`: "user",
		`{"user":"a","text":"` + strings.Repeat("x", 201) + `"}`: "text",
	} {
		w.do(call{method: "POST", path: "/api/rooms/42/kick", body: body, operator: true, status: 400, want: []string{`"field":"` + field + `"`}})
	}
	w.must("DELETE", "/api/rooms/42", "", `"count":0`)
	w.must("GET", "/api/rooms/42", "", `"closed":true`, `"users":[]`)
	_, err := w.players.Do(t.Context(), "42", room.Join{User: "c", Session: "s"})
	redistest.ErrorIf(t, !errors.Is(err, room.ErrRoomClosed), "a join: %v", err)
}

// Data are replaced only if nobody has replaced them since the version that If-Match names; other
// changes of the room do not count.
func TestData_ComparedAndSet(t *testing.T) {
	w := newWorld(t, false, Options{})
	put := func(body, match string, status int, want ...string) reply {
		t.Helper()
		return w.do(call{method: "PUT", path: "/api/rooms/42/data", body: body, headers: []string{"If-Match", match}, operator: true, status: status, want: want})
	}
	r := w.must("PUT", "/api/rooms/42/data", ` {"round" : 1} `, `"version":1`)
	tag := r.Header.Get("ETag")
	w.join("42", "a", "b")
	tag2 := put(`{"round":2}`, tag, 200, `"version":4`).Header.Get("ETag")
	put(`{"round":3}`, tag, 412, `"version":4`, `"data":{"round":2}`, `"code":"conflict"`)
	put(`{"round":3}`, "3", 412)
	put(`{"round":3}`, `"x.4"`, 412) // another epoch
	w.must("GET", "/api/rooms/42", "", `"data":{"round":2}`, `"version":4`)
	put(`null`, tag2, 200, `"version":5`)
	if r := w.must("GET", "/api/rooms/42", ""); r.field("data") != nil {
		t.Errorf("removed data are there: %s", r.body)
	}
	for _, body := range []string{`"` + strings.Repeat("x", 8<<10) + `"`, strings.Repeat("[", 33) + strings.Repeat("]", 33), `{"a":1,"a":2}`} {
		w.do(call{method: "PUT", path: "/api/rooms/42/data", body: body, operator: true, status: 400})
	}
	w.must("PUT", "/api/rooms/42", `{"data":"admins"}`)
	w.must("GET", "/api/rooms/42", "", `"data":"admins"`)
	w.must("PUT", "/api/rooms/42", `{"data":"members"}`)
	w.must("GET", "/api/rooms/42", "", `"data":"members"`)
	for _, body := range []string{`{"data":""}`, `{"data":"all"}`, `{"data":{}}`} {
		w.do(call{method: "PUT", path: "/api/rooms/42", body: body, operator: true, status: 400, want: []string{`"field":"data"`}})
	}
}

// What members have said and set is shown with them.
func TestRoom_Members(t *testing.T) {
	w := newWorld(t, false, Options{})
	w.join("42", "a")
	for _, action := range []room.Action{room.Ready{User: "a", Session: "session", Value: true}, room.SetMemberData{User: "a", Session: "session", Data: `{"hand":[1]}`}} {
		if _, err := w.players.Do(t.Context(), "42", action); err != nil {
			t.Fatal(err)
		}
	}
	w.must("GET", "/api/rooms/42", "", `{"user":"a","seat":0,"ready":true,"data":{"hand":[1]}}`)
}

func TestSay_Messages(t *testing.T) {
	w := newWorld(t, false, Options{})
	w.join("42", "a", "b")
	heard := w.hear("42")
	w.must("POST", "/api/rooms/42/messages", `{"text":"hello"}`, `"version":3,"count":2`)
	w.must("POST", "/api/rooms/42/messages", `{"data":{"x":1},"to":["a","b"]}`)
	if c := redistest.Receive(t, heard, "a text"); c.Type != room.KindMessage || c.User != "" || c.Text != "hello" || c.To != nil {
		t.Errorf("members hear %+v", c)
	}
	if c := redistest.Receive(t, heard, "data"); string(c.Data) != `{"x":1}` || fmt.Sprint(c.To) != "[a b]" {
		t.Errorf("members hear %+v", c)
	}
	for body, field := range map[string]string{`{}`: "text", `{"text":"a","to":["a","a"]}`: "to", `{"text":"a","to":"a"}`: "to", `{"text":1}`: "text"} {
		w.do(call{method: "POST", path: "/api/rooms/42/messages", body: body, operator: true, status: 400, want: []string{`"field":"` + field + `"`}})
	}
}

// A party gets seats together or not at all, and so it leaves and moves.
func TestSeats_Parties(t *testing.T) {
	w := newWorld(t, false, Options{})
	w.join("42", "z")
	w.must("POST", "/api/rooms/42/seats", `{"users":["a","z","e\u0301"]}`, `"version":2,"count":3`,
		`"users":[{"user":"z","seat":0},{"user":"a","seat":1,"away":true},{"user":"é","seat":2,"away":true}]`)
	w.do(call{method: "POST", path: "/api/rooms/42/seats", body: `{"users":["p","q"]}`, operator: true, status: 409, want: []string{`"code":"room_full"`}})
	w.do(call{method: "DELETE", path: "/api/rooms/42/seats?user=a&user=p", operator: true, status: 409, want: []string{`"code":"not_member"`}})
	w.must("POST", "/api/rooms/42/move", `{"users":["a","é"],"to":"43"}`, `"from":{"room":"42"`, `"count":1}`, `"to":{"room":"43"`, `"users":[{"user":"a","seat":0,"away":true},{"user":"é","seat":1,"away":true}]`)
	w.join("44", "1", "2", "3")
	w.do(call{method: "POST", path: "/api/rooms/43/move", body: `{"users":["a","é"],"to":"44"}`, operator: true, status: 409, want: []string{`"code":"room_full"`}})
	w.must("DELETE", "/api/rooms/43/seats?user=a&user=%C3%A9", "", `"count":0`)
	w.must("GET", "/api/rooms/42", "", `"count":1`)
}

// The journal comes in pages, with what everybody may know.
func TestJournal_Read(t *testing.T) {
	w := newWorld(t, false, Options{})
	w.join("42", "a", "b")
	w.must("POST", "/api/rooms/42/kick", `{"user":"a","text":"rude","ban":9}`)
	w.must("POST", "/api/rooms/42/messages", `{"text":"hello","to":["b"]}`)
	w.must("PUT", "/api/rooms/42", `{"capacity":9}`)
	w.must("POST", "/api/rooms/42/move", `{"users":["b"],"to":"43"}`)
	w.must("GET", "/api/rooms/42/log", "",
		`"version":1`, `"changes":[{"type":"join","user":"a","seat":0}`,
		`{"type":"leave","user":"a","seat":0,"reason":"kicked","text":"rude"}`,
		`{"type":"message","text":"hello","to":["b"]}`,
		`{"type":"settings","settings":{"capacity":9,"closed":false,"keep":false,"data":"members","watch":"all","labels":{},"host":"none","history":0}}`,
		`"reason":"moved","to":"43"`)
	var versions []string
	for next := ""; len(versions) < 10; {
		r := w.must("GET", "/api/rooms/42/log?limit=4&after="+next, "")
		for _, e := range r.field("entries").([]any) {
			versions = append(versions, fmt.Sprint(e.(map[string]any)["version"]))
		}
		if next, _ = r.field("next").(string); next == "" {
			break
		}
	}
	redistest.Equal(t, "versions", strings.Join(versions, " "), "1 2 3 4 5 6")
	w.do(call{method: "GET", path: "/api/rooms/42/log?after=7", operator: true, status: 400, want: []string{`"field":"after"`}})
	w.must("GET", "/api/rooms/none/log", "", `"entries":[]`)
}

// The journal, and its description, has every kind of change that players see, with what goes with it.
func TestJournal_EveryKind(t *testing.T) {
	w := newWorld(t, false, Options{})
	act := func(a room.Action) {
		t.Helper()
		_, err := w.players.Do(t.Context(), "42", a)
		redistest.OK(t, err)
	}
	w.must("PUT", "/api/rooms/42", `{"capacity":4,"host":"longest"}`)
	w.join("42", "a", "b")
	act(room.Ready{User: "a", Session: "session", Value: true})
	act(room.Detach{User: "a", Session: "session"})
	act(room.Keep{User: "a", Session: "session"})
	w.must("PUT", "/api/rooms/42/data", `[]`)
	w.must("PUT", "/api/rooms/42/members/a/private", `["AS"]`)
	w.must("POST", "/api/rooms/42/messages", `{"text":"hi"}`)
	w.must("POST", "/api/rooms/42/swap", `{"users":["a","b"]}`)
	w.must("DELETE", "/api/rooms/42/seats?user=b", "")
	w.must("PUT", "/api/rooms/42/timers/turn", `{"in":86400000}`)
	w.must("DELETE", "/api/rooms/42/timers/turn", "")
	w.must("PUT", "/api/rooms/42/timers/end", `{"in":0}`)
	redistest.Until(t, "the timer has fired", func() bool {
		return strings.Contains(string(w.must("GET", "/api/rooms/42/log", "").body), `"type":"timer"`)
	})
	r := w.must("GET", "/api/rooms/42/log", "", `{"type":"seat","user":"a","seat":1}`, `{"type":"countdown","name":"turn","in":null}`, `{"type":"timer","name":"end"}`, `{"type":"host","user":"a"}`)
	found := map[string]bool{}
	for _, e := range r.field("entries").([]any) {
		for _, c := range e.(map[string]any)["changes"].([]any) {
			c := c.(map[string]any)
			found[c["type"].(string)] = true
			if in, set := c["in"].(float64); set && c["name"] == "turn" && (in < 80_000_000 || in > 87_000_000) {
				t.Errorf("a timer of a day fires in %v ms", in)
			}
			if _, seated := c["seat"]; seated != room.Kind(c["type"].(string)).OfMember() {
				t.Errorf("a seat in %v", c)
			}
		}
	}
	redistest.Equal(t, "kinds", strings.Join(slices.Sorted(maps.Keys(found)), " "), strings.Join(slices.Sorted(slices.Values(protocol.Changes())), " "))
}
