package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A problem of a query names its parameter, and one of a body the body's field.
func TestSeats_ProblemsNameUsers(t *testing.T) {
	w := newWorld(t, false, Options{})
	w.join("42", "a", "b")
	long := strings.Repeat("x", 65)
	for query, name := range map[string]string{"": "user", "?user=a&user=a": "user", "?user=a&user=": "user[1]", "?user=" + long: "user[0]"} {
		w.do(call{method: "DELETE", path: "/api/rooms/42/seats" + query, operator: true, status: 400, want: []string{`"field":"` + name + `"`, `"detail":"` + name + " "}})
	}
	for body, name := range map[string]string{`{"users":[]}`: "users", `{"users":["a","a"]}`: "users", `{"users":["a",""]}`: "users[1]"} {
		w.do(call{method: "POST", path: "/api/rooms/42/release", body: body, operator: true, status: 400, want: []string{`"field":"` + name + `"`}})
	}
	w.must("GET", "/api/rooms/42", "", `"version":2`)
}

// The longest names of as many users as there may be are too much for a query, but not for a body.
func TestSeats_ReleaseOfLongNames(t *testing.T) {
	w := newWorld(t, false, Options{})
	if w.must("PUT", "/api/rooms/42", `{"capacity":64}`); t.Failed() {
		return
	}
	names := make([]string, 64)
	for i := range names {
		names[i] = strings.Repeat("\U0001F600", 62) + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	w.join("42", names...)
	body := `{"users":["` + strings.Join(names, `","`) + `"]}`
	if query := (url.Values{"user": names}).Encode(); len(query) < 16<<10 || len(body) > maxBody {
		t.Fatalf("a query of %d bytes, and a body of %d", len(query), len(body))
	}
	w.must(http.MethodPost, "/api/rooms/42/release", body, `"count":0`)
}

// Where there is no room there is no ban to lift, and none begins.
func TestUnban_NoRoom(t *testing.T) {
	w := newWorld(t, false, Options{})
	r := w.do(call{method: "DELETE", path: "/api/rooms/none/bans/x", operator: true, status: 404, want: []string{`"code":"not_found"`}})
	if tag := r.Header.Get("ETag"); tag != "" {
		t.Errorf("ETag %s", tag)
	}
	w.do(call{method: "GET", path: "/api/rooms/none", operator: true, status: 404})
	if keys := w.redis.Keys(t.Context(), "*none*").Val(); len(keys) > 0 {
		for _, key := range keys {
			if !strings.HasPrefix(key, "LockRoom:") {
				t.Errorf("Redis has %s", key)
			}
		}
	}
}
