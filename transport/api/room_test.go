package api

import (
	"net/http"
	"roomd/transport/auth"
	"strings"
	"testing"

	"roomd/room"
)

func TestRoom_Read(t *testing.T) {
	w := newWorld(t, false, Options{Rate: -1})
	w.do(call{method: "GET", path: "/api/rooms/42", status: 404, want: []string{`"code":"not_found"`, "room 42"}})
	w.join("42", "李四", "b")
	if _, err := w.players.Do(t.Context(), "42", room.Detach{User: "b", Session: "session"}); err != nil {
		t.Fatal(err)
	}
	r := w.do(call{method: "GET", path: "/api/rooms/42", status: 200, want: []string{
		`"room":"42"`, `"version":3,"count":2`, `"settings":{"capacity":4,"closed":false,"keep":false`, `{"user":"李四","seat":0}`, `{"user":"b","seat":1,"away":true}`,
	}})
	tag := r.Header.Get("ETag")
	if want := `"` + r.field("epoch").(string) + `.3"`; tag != want || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("ETag %s, want %s; %v", tag, want, r.Header)
	}
	for match, status := range map[string]int{
		tag: 304, "W/" + tag: 304, "*": 304, `"x", ` + tag: 304, `"3"`: 200, `"x.3"`: 200, strings.Trim(tag, `"`): 200,
	} {
		r := w.do(call{method: "GET", path: "/api/rooms/42", headers: []string{"If-None-Match", match}, status: status})
		if r.Header.Get("ETag") != tag || (len(r.body) > 0) != (status == 200) {
			t.Errorf("If-None-Match: %s: ETag %s, %q", match, r.Header.Get("ETag"), r.body)
		}
	}
	head := w.do(call{method: http.MethodHead, path: "/api/rooms/42", status: 200})
	if len(head.body) > 0 || head.Header.Get("ETag") != tag || head.ContentLength != int64(len(r.body)) {
		t.Errorf("HEAD: %q, %v", head.body, head.Header)
	}
	w.do(call{method: "GET", path: "/api/rooms/4%202", status: 400, want: []string{`"field":"room"`}})
	w.do(call{method: "GET", path: "/api/rooms/" + strings.Repeat("x", 65), status: 400, want: []string{`"field":"room"`}})
	w.do(call{method: "GET", path: "/api/rooms/42?x=1", status: 400, want: []string{`"field":"x"`, "x is no parameter of this, which has none"}})
}

func TestRoom_Configure(t *testing.T) {
	w := newWorld(t, false, Options{})
	put := func(body, match string, status int, want ...string) reply {
		t.Helper()
		c := call{method: "PUT", path: "/api/rooms/42", body: body, operator: true, status: status, want: want}
		if match != "" {
			c.headers = []string{"If-Match", match}
		}
		return w.do(c)
	}
	r := put(`{"capacity":2,"keep":true}`, "", 200, `"version":1,"count":0`) // begins the room
	tag, epoch := r.Header.Get("ETag"), r.field("epoch").(string)
	w.do(call{method: "GET", path: "/api/rooms/42", status: 200, want: []string{`{"capacity":2,"closed":false,"keep":true,"data":"members","watch":"all","labels":{},"host":"none","history":0}`}})
	w.join("42", "a", "b")
	put(`{"capacity":3}`, tag, 412, `"code":"conflict"`, `"version":3`, `"epoch":"`+epoch+`"`, `"room":"42"`)
	put(`{"capacity":3}`, `"`+epoch+`.3"`, 200, `"version":4`)
	put(`{}`, "4", 200, `"version":5`)
	put(` {"closed" : true} `, `"5"`, 200, `"version":6`)
	put(`{"capacity":1}`, "", 400, `"field":"capacity"`, "2 members")
	put(`{"capacity":4}`, "7", 412, `"version":6`)
	put(`{"capacity":4}`, `"x.6"`, 412, `"version":6`) // another epoch
	for _, match := range []string{"6.", `"6`, `6"`, `W/"6"`, `"x.y"`, "*", epoch + ".6", `".6"`, "06", "-1", "+6", `"` + epoch + `. 6"`, "9223372036854775808", `"5", "6"`, `""`} {
		put(`{}`, match, 400, `"field":"If-Match"`)
	}
	for _, name := range []string{"If-None-Match", "If-Unmodified-Since"} { // which do not count here
		w.do(call{method: "PUT", path: "/api/rooms/42", body: `{}`, headers: []string{name, `"6"`}, operator: true, status: 400, want: []string{`"field":"` + name + `"`}})
	}
	w.do(call{method: "GET", path: "/api/rooms/42", status: 200, want: []string{`"version":6`}})
}

// A path that there is not, and a method that a path does not have, are problems as well.
func TestPaths_AndMethods(t *testing.T) {
	w := newWorld(t, false, Options{Rate: -1})
	for _, path := range []string{"/api/", "/api/x", "/api/rooms/", "/api/rooms//", "/api/rooms/42/", "/api/rooms/42/x", "/api/rooms/42/bans", "/api/rooms/42/bans/a/b", "/api/openapi.yaml/x"} {
		w.do(call{method: "GET", path: path, status: 404, want: []string{`"type":"urn:roomd:problem:`}})
	}
	r := w.do(call{method: "PATCH", path: "/api/rooms", status: 405, want: []string{`"code":"method_not_allowed"`}})
	if allow := r.Header.Get("Allow"); allow != "GET, HEAD, OPTIONS" {
		t.Errorf("Allow: %s", allow)
	}
	if r := w.do(call{method: "OPTIONS", path: "/api/rooms/42", status: 204}); !strings.Contains(r.Header.Get("Allow"), "PUT") || len(r.body) > 0 {
		t.Errorf("OPTIONS: %v", r.Header)
	}
	for _, path := range []string{"/api/rooms/..", "/api/./rooms", "/api/rooms/42/../43"} { // no redirection either
		w.do(call{method: "GET", path: path, status: 404, want: []string{`"type":"urn:roomd:problem:not_found"`}})
	}
	for _, id := range []string{"%2E", "%2e%2e", "%2E."} {
		w.do(call{method: "GET", path: "/api/rooms/" + id, status: 400, want: []string{`"field":"room"`}})
	}
}

func TestDescription_Served(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		w := newWorld(t, keyed, Options{})
		r := w.do(call{method: "GET", path: "/api/openapi.yaml", status: 200})
		if string(r.body) != string(openAPI()) || r.Header.Get("Content-Type") != "application/yaml" {
			t.Errorf("%d bytes of %s", len(r.body), r.Header.Get("Content-Type"))
		}
		w.do(call{method: "GET", path: "/api/openapi.yaml?x", status: 400})
		for _, credentials := range []string{"Bearer x", "Bearer", "Basic YTpi"} {
			w.do(call{method: "GET", path: "/api/openapi.yaml", headers: []string{"Authorization", credentials}, status: 200})
		}
	}
}

// Who is banned, and where only members may watch who is none, does not see the room; nor whom the token
// lets see it neither as a member nor as a watcher. Operators and admins do.
func TestRoom_WhoMaySee(t *testing.T) {
	w := newWorld(t, true, Options{})
	w.join("42", "m", "x")
	see := func(token string, status int) {
		t.Helper()
		w.do(call{method: "GET", path: "/api/rooms/42", token: token, status: status})
	}
	player := func(user string) string { return sign(t, user, auth.RolePlayer) }
	see(player("w"), 200)
	w.must("POST", "/api/rooms/42/kick", `{"user":"w","ban":60}`)
	see(player("w"), 409)
	w.must("PUT", "/api/rooms/42", `{"capacity":4,"watch":"members"}`, `"count":2`)
	see(player("v"), 403)
	see(player("m"), 200)
	see(sign(t, "w", auth.RoleAdmin), 200)
	w.do(call{method: "GET", path: "/api/rooms/42", operator: true, status: 200, want: []string{`"watch":"members"`}})
	w.must("PUT", "/api/rooms/42", `{"capacity":4,"watch":"all"}`, `"count":2`)
	see(player("v"), 200)
	see(sign(t, "v", auth.RolePlayer, "43"), 403)
	see(signed(t, auth.Identity{User: "v", Role: auth.RoleAdmin, Watch: []string{}}), 403) // as by WebSocket
	see(signed(t, auth.Identity{User: "m", Role: auth.RoleAdmin, Watch: []string{}}), 200) // a member
	see(signed(t, auth.Identity{User: "m", Rooms: []string{"7"}}), 403)                    // a member, whose newer token is for other rooms
	see(signed(t, auth.Identity{User: "v", Rooms: []string{}, Watch: []string{"4?"}}), 200)
}
