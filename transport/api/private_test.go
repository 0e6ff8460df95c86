package api

import (
	"strings"
	"testing"

	"roomd/transport/auth"
)

// A backend deals to all that it names, or to nobody, and is told which hand was wrong.
func TestDeal_AllOrNobody(t *testing.T) {
	w := newWorld(t, false, Options{})
	w.join("42", "a", "b")
	deal := func(body string, status int, want ...string) {
		t.Helper()
		w.do(call{method: "POST", path: "/api/rooms/42/deal", body: body, operator: true, status: status, want: want})
	}
	large := `"` + strings.Repeat("x", 1024) + `"`
	deal(`{"hands":{"a":["AS"],"c":1}}`, 409, `"code":"not_member"`, "c is not in room 42")
	deal(`{"hands":{"a":["AS"],"b":`+large+`}}`, 400, `"field":"hands.b"`)
	deal(`{"hands":{"b":`+large+`}}`, 400, `"field":"hands.b"`)
	deal(`{"hands":{"b":1e999}}`, 400, `"field":"hands.b"`)
	deal(`{"hands":{"\u0000":1}}`, 400, `"field":"user"`)
	deal(`{"hands":{"":1,"a":1}}`, 400, `"field":"hands"`)
	deal(`{"hands":null}`, 400, `"field":"hands"`)
	deal(`{}`, 400, `"field":"hands"`)
	deal(`{"hands":{"a":["AS"],"b":{"cards":[2]}}}`, 200, `"version":3`)
	w.must("GET", "/api/rooms/42", "", `{"user":"a","seat":0,"private":["AS"]},{"user":"b","seat":1,"private":{"cards":[2]}}`)
	w.must("PUT", "/api/rooms/42/members/a/private", `["KD"]`, `"version":4`)
	put := call{method: "PUT", path: "/api/rooms/42/members/b/private", body: `1`, operator: true, status: 412}
	put.headers, put.want = []string{"If-Match", "2"}, []string{`"version":4`, `"data":{"cards":[2]}`}
	w.do(put)
	again := call{method: "POST", path: "/api/rooms/42/deal", body: `{"hands":{"a":1,"b":2}}`, operator: true, status: 412}
	again.headers, again.want = []string{"If-Match", "3"}, []string{`"version":4`}
	if r := w.do(again); r.field("data") != nil {
		t.Errorf("a refused deal to two: %s", r.body)
	}
	again.headers, again.status, again.want = []string{"If-Match", `"4"`}, 200, []string{`"version":5`}
	w.do(again)
	w.must("GET", "/api/rooms/42/log", "", `{"type":"private","user":"a","seat":0,"data":["AS"]}`)
	w.must("POST", "/api/rooms/42/deal", `{"hands":{"a":null}}`, `"version":6`)
	w.must("GET", "/api/rooms/42", "", `{"user":"a","seat":0},{"user":"b","seat":1,"private":2}`)
}

// Private data are shown to their member and to admins of the room, and nowhere else.
func TestPrivate_WhoIsShown(t *testing.T) {
	w := newWorld(t, true, Options{Rate: -1})
	w.join("42", "a", "b")
	w.do(call{method: "POST", path: "/api/rooms/42/deal", body: `{"hands":{"a":"of a","b":"of b"}}`, token: sign(t, "boss", auth.RoleAdmin), status: 200})
	for _, tt := range []struct {
		who  auth.Identity
		a, b bool
	}{
		{auth.Identity{User: "a"}, true, false},
		{auth.Identity{User: "b"}, false, true},
		{auth.Identity{User: "c"}, false, false},
		{auth.Identity{User: "boss", Role: auth.RoleAdmin}, true, true},
		{auth.Identity{User: "boss", Role: auth.RoleAdmin, Rooms: []string{"x"}, Watch: []string{"*"}}, false, false},
	} {
		for _, operator := range []bool{false, true} {
			token := signed(t, tt.who)
			if operator && tt.who.Role != auth.RoleAdmin {
				continue
			}
			r := w.do(call{method: "GET", path: "/api/rooms/42", token: token, operator: operator, status: 200})
			if strings.Contains(string(r.body), "of a") != tt.a || strings.Contains(string(r.body), "of b") != tt.b {
				t.Errorf("%+v, operator: %v: %s", tt.who, operator, r.body)
			}
			if lobby := w.do(call{method: "GET", path: "/api/rooms", token: token, operator: operator, status: 200}); strings.Contains(string(lobby.body), "of ") {
				t.Errorf("the lobby shows private data: %s", lobby.body)
			}
		}
		journal := call{method: "GET", path: "/api/rooms/42/log", token: signed(t, tt.who), status: 403}
		if tt.a && tt.b {
			journal.status = 200
		}
		w.do(journal)
		if tt.who.Role != auth.RoleAdmin {
			w.do(call{method: "PUT", path: "/api/rooms/42/members/a/private", body: `1`, token: signed(t, tt.who), status: 403})
			w.do(call{method: "POST", path: "/api/rooms/42/deal", body: `{"hands":{"a":1}}`, token: signed(t, tt.who), status: 403})
		}
	}
	w.do(call{method: "GET", path: "/api/rooms/42", operator: true, status: 200, want: []string{`"private":"of a"`}})
	open := newWorld(t, false, Options{})
	open.join("42", "a")
	open.must("PUT", "/api/rooms/42/members/a/private", `"of a"`)
	if r := open.do(call{method: "GET", path: "/api/rooms/42", status: 200}); strings.Contains(string(r.body), "private") {
		t.Errorf("without a key everybody is shown %s", r.body)
	}
}
