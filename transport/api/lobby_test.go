package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"roomd/room"
	"roomd/transport/auth"
)

// roomsOf returns the ids of a page.
func roomsOf(r reply) string {
	var ids []string
	list, _ := r.field("rooms").([]any)
	for _, one := range list {
		ids = append(ids, fmt.Sprint(one.(map[string]any)["room"]))
	}
	return strings.Join(ids, " ")
}

func TestLobby_Rooms(t *testing.T) {
	w := newWorld(t, false, Options{Rate: -1})
	w.join("a1", "x", "y")
	w.join("a2", "x", "y", "z", "q")
	w.join("b1", "x")
	w.join("b2", "x")
	if _, err := w.rooms.Do(t.Context(), "b2", room.Configure{Settings: room.Settings{Closed: true}}); err != nil {
		t.Fatal(err)
	}
	w.join("b3", "x")
	for query, want := range map[string]string{
		"":                               "a1 a2 b1 b2 b3",
		"?limit=2":                       "a1 a2",
		"?limit=2&after=a2":              "b1 b2",
		"?limit=2&after=b2":              "b3",
		"?after=a3":                      "b1 b2 b3",
		"?after=z":                       "",
		"?prefix=a":                      "a1 a2",
		"?prefix=b&after=b1":             "b2 b3",
		"?prefix=b&after=a1":             "b1 b2 b3",
		"?prefix=a&after=b1":             "",
		"?prefix=b1":                     "b1",
		"?free=1":                        "a1 b1 b3",
		"?free=3":                        "b1 b3",
		"?free=4":                        "",
		"?free=0":                        "a1 a2 b1 b2 b3",
		"?prefix=b&free=1&limit=1":       "b1",
		"?free=1&limit=1&after=b1":       "b3",
		"?prefix=&after=&limit=1&free=0": "a1",
	} {
		r := w.do(call{method: "GET", path: "/api/rooms" + query, status: 200})
		if got := roomsOf(r); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if cache := r.Header.Get("Cache-Control"); cache != "private, no-cache" {
			t.Errorf("Cache-Control: %s", cache)
		}
	}
	w.do(call{method: "GET", path: "/api/rooms?limit=1", status: 200, want: []string{`{"room":"a1","count":2,"capacity":4,"free":2,"closed":false}`, `"next":"a1"`}})
	if r := w.do(call{method: "GET", path: "/api/rooms?limit=5", status: 200}); r.field("next") != nil {
		t.Errorf("the last page has a next one: %s", r.body)
	}
	for query, names := range map[string]string{
		"?limit=0": "limit", "?limit=1001": "limit", "?limit=x": "limit", "?limit=1&limit=2": "limit", "?free=-1": "free", "?free=65537": "free",
		"?after=%20": "after", "?prefix=*": "prefix", "?user=x": "user", "?%zz": "query", "?Limit=1": "Limit",
	} {
		w.do(call{method: "GET", path: "/api/rooms" + query, status: 400, want: []string{`"code":"bad_request"`, `"field":"` + names + `"`}})
	}
}

// Every page begins where the one before ended, whatever the rooms' ids are.
func TestLobby_Pages(t *testing.T) {
	w := newWorld(t, false, Options{Rate: -1})
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("%c%d", "Aa.-_"[i%5], i)
		w.join(id, "x")
		want = append(want, id)
	}
	for limit := 1; limit < 30; limit += 7 {
		got, next, pages := map[string]bool{}, "", 0
		for {
			r := w.do(call{method: "GET", path: fmt.Sprintf("/api/rooms?limit=%d&after=%s", limit, next), status: 200})
			for id := range strings.FieldsSeq(roomsOf(r)) {
				if got[id] {
					t.Errorf("limit %d: %s twice", limit, id)
				}
				got[id] = true
			}
			pages++
			if next, _ = r.field("next").(string); next == "" || pages > len(want) {
				break
			}
		}
		if len(got) != len(want) || pages != (len(want)+limit-1)/limit {
			t.Errorf("limit %d: %d rooms in %d pages", limit, len(got), pages)
		}
	}
}

// With a key a caller sees the rooms that the token allows, and no others.
func TestLobby_Tokens(t *testing.T) {
	w := newWorld(t, true, Options{})
	w.join("a1", "x")
	w.join("b1", "x")
	w.do(call{method: "GET", path: "/api/rooms", status: 401, want: []string{`"code":"unauthorized"`}})
	w.do(call{method: "GET", path: "/api/rooms", token: "x", status: 401})
	for pattern, want := range map[string]string{"*": "a1 b1", "b*": "b1", "c": ""} {
		if got := roomsOf(w.do(call{method: "GET", path: "/api/rooms", token: sign(t, "p", auth.RolePlayer, pattern), status: 200})); got != want {
			t.Errorf("rooms of %s: %q, want %q", pattern, got, want)
		}
	}
	if got := roomsOf(w.do(call{method: "GET", path: "/api/rooms", operator: true, token: sign(t, "p", auth.RoleAdmin, "b*"), status: 200})); got != "b1" {
		t.Errorf("an operator whose token allows b*: %q", got)
	}
	if got := roomsOf(w.do(call{method: "GET", path: "/api/rooms", operator: true, status: 200})); got != "a1 b1" {
		t.Errorf("an operator: %q", got)
	}
	if got := w.do(call{method: http.MethodHead, path: "/api/rooms", token: sign(t, "p", auth.RolePlayer), status: 200}); len(got.body) > 0 {
		t.Errorf("HEAD has a body: %s", got.body)
	}
}
