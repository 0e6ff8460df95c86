package api

import (
	"strings"
	"testing"

	"roomd/transport/auth"
)

// A backend seats parties at tables: those that were begun first are filled, by rooms that its token allows, and
// what cannot be is said.
func TestMatch(t *testing.T) {
	w := newWorld(t, true, Options{Rate: -1})
	token := sign(t, "root", auth.RoleAdmin, "ranked-*")
	seat := func(users string) string {
		r := w.do(call{method: "POST", path: "/api/match", token: token, status: 200,
			body: `{"users":[` + users + `],"labels":{"mode":"ranked"},"settings":{"capacity":4,"keep":true}}`, want: []string{`"count":`}})
		id, _ := r.field("room").(string)
		return id
	}
	first := seat(`"a","b"`)
	if !strings.HasPrefix(first, "ranked-") {
		t.Errorf("the token does not allow %s", first)
	}
	if other := seat(`"c","d","e"`); other == first {
		t.Error("three sit where two seats were free")
	}
	if again := seat(`"f","g"`); again != first {
		t.Errorf("two sit in %s and not in %s", again, first)
	}
	w.do(call{method: "GET", path: "/api/rooms/" + first, token: token, status: 200, want: []string{`"capacity":4`, `"keep":true`, `"labels":{"mode":"ranked"}`}})
	for body, field := range map[string]string{
		`{"users":["a"],"labels":{}}`:                                                "labels",
		`{"users":["a"],"labels":{"a b":"x"}}`:                                       "labels",
		`{"users":["a"],"labels":{"a":1}}`:                                           "labels",
		`{"users":["a","b"],"labels":{"a":"1"},"settings":{"capacity":1}}`:           "users",
		`{"users":["a","a"],"labels":{"a":"1"}}`:                                     "users",
		`{"users":[],"labels":{"a":"1"}}`:                                            "users",
		`{"users":["a"],"labels":{"a":"1"},"settings":{"labels":{"b":"c"}}}`:         "settings.labels",
		`{"users":["a"],"labels":{"a":"1"},"settings":{"capacity":-1}}`:              "capacity",
		`{"users":["a"],"labels":{"a":"1"},"settings":{"Keep":true}}`:                "settings.Keep",
		`{"users":["a"],"labels":{"a":"1"},"key":"` + strings.Repeat("x", 65) + `"}`: "key",
	} {
		w.do(call{method: "POST", path: "/api/match", token: token, body: body, status: 400, want: []string{`"field":"` + field}})
	}
	for settings, want := range map[string]string{
		`{"capacity":"x"}`: "settings.capacity must be a whole number", `4`: "settings must be an object",
	} {
		w.do(call{method: "POST", path: "/api/match", token: token, body: `{"users":["a"],"labels":{"a":"1"},"settings":` + settings + `}`, status: 400, want: []string{want}})
	}
	w.do(call{method: "POST", path: "/api/match", token: sign(t, "root", auth.RoleAdmin, "one"), status: 403, body: `{"users":["a"],"labels":{"mode":"ranked"}}`})
}
