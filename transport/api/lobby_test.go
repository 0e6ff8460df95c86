package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
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
		"?after=B":                       "a1 a2 b1 b2 b3", // by bytes
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
		"?contains=2":                    "a2 b2",
		"?contains=b&prefix=b&after=b1":  "b2 b3",
		"?contains=c":                    "",
		"?contains=":                     "a1 a2 b1 b2 b3",
	} {
		r := w.do(call{method: "GET", path: "/api/rooms" + query, status: 200})
		if got := roomsOf(r); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if cache := r.Header.Get("Cache-Control"); cache != "private, no-cache" {
			t.Errorf("Cache-Control: %s", cache)
		}
	}
	w.do(call{method: "GET", path: "/api/rooms?limit=1", status: 200, want: []string{`{"room":"a1","count":2,"capacity":4,"free":2,"closed":false`, `"next":"a1"`}})
	if r := w.do(call{method: "GET", path: "/api/rooms?limit=5", status: 200}); r.field("next") != nil {
		t.Errorf("the last page has a next one: %s", r.body)
	}
	w.do(call{method: "GET", path: "/api/rooms?label=a:", status: 400, want: []string{`"detail":"label a must be 1 to 64 of`}})
	for query, names := range map[string]string{
		"?label=x": "label", "?label=a:b&label=a:c": "label", "?label=a:": "label", "?sort=x": "sort", "?after=1~a1": "after", "?sort=age&after=a1": "after", "?sort=members&after=x~a": "after",
		"?limit=0": "limit", "?limit=1001": "limit", "?limit=x": "limit", "?limit=1&limit=2": "limit", "?free=-1": "free", "?free=65537": "free",
		"?after=%20": "after", "?prefix=*": "prefix", "?contains=%2F": "contains", "?user=x": "user", "?%zz": "query", "?Limit=1": "Limit",
	} {
		w.do(call{method: "GET", path: "/api/rooms" + query, status: 400, want: []string{`"code":"bad_request"`, `"field":"` + names + `"`}})
	}
}

// Rooms are found by their labels, and listed with the fullest or the newest first, on pages that do not shift.
func TestLobby_LabelsAndOrder(t *testing.T) {
	w := newWorld(t, false, Options{Rate: -1})
	for i, labels := range []map[string]string{{"mode": "fast", "region": "eu"}, {"mode": "fast"}, {"mode": "slow", "region": "eu"}, nil} {
		id := fmt.Sprint("r", i)
		_, err := w.rooms.Do(t.Context(), id, room.Configure{Settings: room.Settings{Capacity: 4, Labels: room.MakeLabels(labels)}})
		redistest.OK(t, err)
		for j := range (i + 2) % 4 { // 2, 3, 0, 1 members
			w.join(id, fmt.Sprint("u", j))
		}
		redistest.Until(t, "the room in the index", func() bool {
			list, err := w.rooms.Lobby(t.Context())
			return err == nil && list.Find(id) != nil && list.Find(id).Since > 0
		})
	}
	for query, want := range map[string]string{
		"?label=mode:fast": "r0 r1", "?label=region:eu": "r0 r2", "?label=mode:fast&label=region:eu": "r0", "?label=mode:x": "", "?label=mode:fast&free=2": "r0",
		"?sort=id": "r0 r1 r2 r3", "?sort=members": "r1 r0 r3 r2", "?sort=members&limit=2": "r1 r0", "?sort=members&after=2~r0": "r3 r2", "?sort=age": "r3 r2 r1 r0",
	} {
		redistest.Equal(t, query, roomsOf(w.do(call{method: "GET", path: "/api/rooms" + query, status: 200})), want)
	}
	for _, sort := range []string{"members", "age"} {
		var got []string
		for next := ""; ; {
			r := w.do(call{method: "GET", path: "/api/rooms?limit=1&sort=" + sort + "&after=" + next, status: 200})
			got = append(got, roomsOf(r))
			w.join("new"+sort+fmt.Sprint(len(got)), "x") // others come meanwhile
			if next, _ = r.field("next").(string); next == "" || len(got) > 20 {
				break
			}
		}
		seen := strings.Join(got, " ")
		for _, id := range []string{"r0", "r1", "r2", "r3"} {
			if strings.Count(seen+" ", id+" ") != 1 {
				t.Errorf("by %s: %s is not there once: %s", sort, id, seen)
			}
		}
	}
	w.do(call{method: "GET", path: "/api/rooms?prefix=r2", status: 200, want: []string{`"labels":{"mode":"slow","region":"eu"}`, `"since":`}})
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
