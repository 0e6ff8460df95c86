package api

import (
	"net/http"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/auth"
)

// Who may do what, on which address, with which token.
func TestAccess_Tokens(t *testing.T) {
	t.Parallel()
	put := call{method: "PUT", path: "/api/rooms/a1", body: `{"capacity":4}`}
	get := call{method: "GET", path: "/api/rooms/a1"}
	player, admin := sign(t, "p", auth.RolePlayer), sign(t, "root", auth.RoleAdmin)
	playerOfA, adminOfA, adminOfB := sign(t, "p", auth.RolePlayer, "a*"), sign(t, "root", auth.RoleAdmin, "a*"), sign(t, "root", auth.RoleAdmin, "b*")
	for _, test := range []struct {
		name     string
		keyed    bool
		operator bool
		token    string
		get, put int
	}{
		{"no key", false, false, "", 200, 403},
		{"no key, with a token", false, false, admin, 200, 403},
		{"no key, an operator", false, true, "", 200, 200},
		{"a key, no token", true, false, "", 401, 401},
		{"a token that is none", true, false, "x", 401, 401},
		{"a player", true, false, player, 200, 403},
		{"a player of other rooms", true, false, sign(t, "p", auth.RolePlayer, "b*"), 403, 403},
		{"a player of this room", true, false, playerOfA, 200, 403},
		{"an admin", true, false, admin, 200, 200},
		{"an admin of this room", true, false, adminOfA, 200, 200},
		{"an admin of other rooms", true, false, adminOfB, 403, 403},
		{"an operator without a token", true, true, "", 200, 200},
		{"an operator with an admin's token", true, true, adminOfA, 200, 200},
		{"an operator with a token for other rooms", true, true, adminOfB, 403, 403},
		{"an operator with a player's token", true, true, player, 403, 403},
		{"an operator with a token that is none", true, true, "x", 401, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.keyed, Options{})
			w.join("a1", "x")
			for c, status := range map[*call]int{&get: test.get, &put: test.put} {
				c := *c
				c.operator, c.token, c.status = test.operator, test.token, status
				if !test.keyed && status == http.StatusForbidden {
					c.want = []string{"--admin-listen"} // where it may be done
				}
				r := w.do(c)
				if has := r.Header.Get("WWW-Authenticate") != ""; has != (status == http.StatusUnauthorized) {
					t.Errorf("%s: %d, WWW-Authenticate %v", c.method, status, has)
				}
				if cache := r.Header.Get("Cache-Control"); cache != "no-store" {
					t.Errorf("%s: Cache-Control %s", c.method, cache)
				}
			}
		})
	}
}

// Pages of allowed origins may read, others may not even ask. On the operators' address no page gets
// leave.
func TestAccess_Origins(t *testing.T) {
	w := newWorld(t, true, Options{})
	token := sign(t, "p", auth.RolePlayer)
	from := func(origin string) []string { return []string{"Origin", origin} }
	r := w.do(call{method: "GET", path: "/api/rooms", token: token, headers: from("https://game.example"), status: 200})
	if got := r.Header.Get("Access-Control-Allow-Origin"); got != "https://game.example" || r.Header.Get("Vary") == "" || r.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("an allowed origin: %v", r.Header)
	}
	r = w.do(call{method: "GET", path: "/api/rooms", headers: from("https://game.example"), status: 401})
	if r.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("a page cannot read why it is refused: %v", r.Header)
	}
	for _, origin := range []string{"https://evil.example", "null", "https://game.example.evil"} {
		r := w.do(call{method: "GET", path: "/api/rooms", token: token, headers: from(origin), status: 403, want: []string{"--allow-origin"}})
		if r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", origin, r.Header)
		}
	}
	ask := append(from("https://game.example"), "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "authorization")
	r = w.do(call{method: "OPTIONS", path: "/api/rooms/42", headers: ask, status: 204})
	if r.Header.Get("Access-Control-Allow-Methods") == "" || r.Header.Get("Access-Control-Allow-Headers") == "" || r.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("a page asks before it sends: %v", r.Header)
	}
	r = w.do(call{method: "OPTIONS", path: "/api/rooms/42", operator: true, headers: ask, status: 204})
	if r.Header.Get("Access-Control-Allow-Methods") != "" || r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("on the operators' address: %v", r.Header)
	}
}

// Settings that another version, or somebody by hand, has written are shown as this version uses them. What is no
// settings at all makes the request fail, and the same request will not succeed soon.
func TestRead_SettingsOfAnotherVersion(t *testing.T) {
	for text, want := range map[string]string{
		`{"capacity":70000}`: `"settings":{"capacity":65536,"closed":false,"keep":false,"data":"members","watch":"all","labels":{},"host":"none","history":0}`,
		`{"capacity":-1,"watch":"friends","data":"host","host":"elected"}`: `"settings":{"capacity":0,"closed":false,"keep":false,"data":"admins","watch":"members","labels":{},"host":"longest","history":0}`,
		`{"capacity":2,"colour":"red"}`:                                    `"settings":{"capacity":2,`,
		`{"capacity":`:                                                     "",
		`7`:                                                                "",
		`{"capacity":"many"}`:                                              "",
	} {
		w := newWorld(t, false, Options{})
		w.do(call{method: "PUT", path: "/api/rooms/42", operator: true, body: `{"capacity":4}`, status: 200})
		redistest.OK(t, w.redis.HSet(t.Context(), "Room:42:Meta", "settings", text).Err())
		if want != "" {
			w.do(call{method: "GET", path: "/api/rooms/42", operator: true, status: 200, want: []string{want}})
			continue
		}
		w.do(call{method: "GET", path: "/api/rooms/42", operator: true, status: 500, want: []string{`"code":"internal"`, `"retry":false`, "is not roomd's"}})
	}
}

// What another program has written is named to operators, and not to players.
func TestRead_Foreign(t *testing.T) {
	w := newWorld(t, true, Options{})
	redistest.OK(t, w.redis.HSet(t.Context(), "Room:42:Users", "李四", "1").Err())
	read := call{method: "GET", path: "/api/rooms/42", token: sign(t, "p", auth.RolePlayer), status: 500,
		want: []string{`"detail":"what Redis keeps under a key of this room, or one that all rooms share, is another program's, which an operator has to look after; nothing was written"`}}
	w.do(read)
	read.token, read.want = sign(t, "boss", auth.RoleAdmin), []string{`field \"李四\" of Room:42:Users holds`, "rename or delete"}
	w.do(read)
}
