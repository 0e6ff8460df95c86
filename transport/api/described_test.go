package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"

	"roomd/room"
	"roomd/transport/auth"
)

// sample is a request of each kind that the description has, which succeeds in the room a1 with
// its member x.
type sample struct {
	method, path, body string
	admin              bool
}

// matches reports whether If-Match counts.
func (s sample) matches() bool {
	return s.method == http.MethodPut || strings.HasSuffix(s.path, "/deal")
}

var samples = []sample{
	{"GET", "/api/rooms", "", false},
	{"GET", "/api/rooms/a1", "", false},
	{"PUT", "/api/rooms/a1", `{"capacity":4,"closed":false,"keep":true,"data":"admins"}`, true},
	{"DELETE", "/api/rooms/a1", "", true},
	{"POST", "/api/rooms/a1/seats", `{"users":["y","z"]}`, true},
	{"DELETE", "/api/rooms/a1/seats?user=x", "", true},
	{"POST", "/api/rooms/a1/release", `{"users":["x"]}`, true},
	{"POST", "/api/rooms/a1/kick", `{"user":"x","text":"rude","ban":60}`, true},
	{"DELETE", "/api/rooms/a1/bans/x", "", true},
	{"PUT", "/api/rooms/a1/data", `{"round":3}`, true},
	{"PUT", "/api/rooms/a1/members/x/private", `{"cards":[1,2]}`, true},
	{"POST", "/api/rooms/a1/deal", `{"hands":{"x":[1,2]}}`, true},
	{"POST", "/api/rooms/a1/swap", `{"users":["x","w"]}`, true},
	{"POST", "/api/rooms/a1/shuffle", "", true},
	{"PUT", "/api/rooms/a1/timers/turn", `{"in":30000,"then":{"data":{"round":4}}}`, true},
	{"DELETE", "/api/rooms/a1/timers/turn", "", true},
	{"POST", "/api/rooms/a1/move", `{"users":["x"],"to":"a2"}`, true},
	{"POST", "/api/rooms/a1/messages", `{"text":"hello"}`, true},
	{"GET", "/api/rooms/a1/log", "", true},
	{"GET", "/api/feed", "", true},
	{"POST", "/api/match", `{"users":["y","z"],"labels":{"mode":"fast"},"settings":{"capacity":2}}`, true},
}

// Each path, method and status of the description happens as it says, and no other: world.do holds
// every request and answer against it.
func TestDescription_EverythingHappens(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, op := range samples {
		w := newWorld(t, true, Options{Rate: -1})
		w.seen = seen
		w.join("a1", "x")
		w.tryRefusals(op)
		if strings.HasSuffix(op.path, "/swap") {
			w.join("a1", "w")
		}
		good := call{method: op.method, path: op.path, body: op.body, token: sign(t, "root", auth.RoleAdmin, "a*"), status: 200}
		if op.matches() {
			bad := good
			bad.status, bad.headers = 412, []string{"If-Match", "9"}
			w.do(bad)
		}
		r := w.do(good)
		if tag := r.Header.Get("ETag"); op.method == http.MethodGet && tag != "" {
			good.status, good.headers = 304, []string{"If-None-Match", tag}
			w.do(good)
		}
		for _, again := range failures[op.method+" "+op.path] {
			again.method, again.token = op.method, good.token
			if again.path == "" {
				again.path = op.path
			}
			w.do(again)
		}
	}
	w := newWorld(t, true, Options{})
	w.seen = seen
	w.do(call{method: "GET", path: "/api/openapi.yaml", status: 200})
	w.do(call{method: "GET", path: "/api/openapi.yaml?x", status: 400})
	w.tryNodes()
	w.tryNoFeed()
	for path, item := range described(t).Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if !seen[method+" "+path+" "+status] && status != "default" {
					t.Errorf("%s %s never answers %s", method, path, status)
				}
			}
		}
	}
	for what := range seen {
		method, rest, _ := strings.Cut(what, " ")
		path, status, _ := strings.Cut(rest, " ")
		if op := described(t).Paths.Find(path).GetOperation(method); op.Responses.Value(status) == nil {
			t.Errorf("%s is not described", what)
		}
	}
}

// failures are what can be wrong with some operations only, after they were done once.
var failures = map[string][]call{
	"GET /api/rooms/a1":                   {{path: "/api/rooms/a9", status: 404}},
	"DELETE /api/rooms/a1":                {{path: "/api/rooms/a9", status: 404}},
	"POST /api/rooms/a1/seats":            {{body: `{"users":["1","2","3","4"]}`, status: 409}, {body: `{"users":[]}`, status: 400}, {body: `{"users":["a","a"]}`, status: 400}},
	"DELETE /api/rooms/a1/seats?user=x":   {{status: 409}, {path: "/api/rooms/a1/seats", status: 400}},
	"POST /api/rooms/a1/release":          {{body: `{"users":["x"]}`, status: 409}, {body: `{"users":[]}`, status: 400}},
	"DELETE /api/rooms/a1/bans/x":         {{path: "/api/rooms/a9/bans/x", status: 404}},
	"POST /api/rooms/a1/kick":             {{body: `{"user":"x"}`, status: 409}, {body: `{"user":"x","ban":0}`, status: 400}, {body: `{"text":"x"}`, status: 400}},
	"POST /api/rooms/a1/move":             {{body: `{"users":["x"],"to":"a2"}`, status: 409}, {body: `{"users":["x"],"to":"b2"}`, status: 403}, {body: `{"users":["x"],"to":"?"}`, status: 400}},
	"PUT /api/rooms/a1/members/x/private": {{path: "/api/rooms/a1/members/y/private", body: `1`, status: 409}, {body: `1e999`, status: 400}},
	"POST /api/rooms/a1/deal":             {{body: `{"hands":{"x":1,"y":2}}`, status: 409}, {body: `{"hands":{}}`, status: 400}, {body: `{"hands":[]}`, status: 400}},
	"PUT /api/rooms/a1/timers/turn": {
		{path: "/api/rooms/a9/timers/turn", body: `{"in":1}`, status: 404}, {body: `{"in":7776000001}`, status: 400}, {body: `{"then":{}}`, status: 400},
		{body: `{"in":1,"then":{"close":true,"kick":"x"}}`, status: 400}, {body: `{"in":1,"then":{"end":true}}`, status: 400}, {body: `{"in":1,"then":1}`, status: 400}, {body: `{"in":1,"then":null}`, status: 400},
		{body: `{"in":1,"then":{"close":false}}`, status: 400}, {body: `{"in":1,"then":{"kick":""}}`, status: 400},
		{path: "/api/rooms/a1/timers/a%20b", body: `{"in":1}`, status: 400}, {body: `{"in":1,"then":{"close":true}}`, status: 200}, {body: `{"in":1,"then":{"kick":"x"}}`, status: 200}, {body: `{"in":1}`, status: 200},
	},
	"POST /api/rooms/a1/swap":          {{body: `{"users":["x","y"]}`, status: 409}, {body: `{"users":["x"]}`, status: 400}},
	"POST /api/rooms/a1/shuffle":       {{path: "/api/rooms/a9/shuffle", status: 404}},
	"DELETE /api/rooms/a1/timers/turn": {{path: "/api/rooms/a9/timers/turn", status: 404}},
	"POST /api/rooms/a1/messages":      {{path: "/api/rooms/a9/messages", body: `{"text":"x"}`, status: 404}, {body: `{"data":1,"to":["y"]}`, status: 409}, {body: `{"text":"a","data":1}`, status: 400}},
}

// tryRefusals sends what every operation of its kind refuses.
func (w *world) tryRefusals(op sample) {
	w.t.Helper()
	good := call{method: op.method, path: op.path, body: op.body, token: sign(w.t, "root", auth.RoleAdmin)}
	with := func(status int, change func(c *call)) {
		w.t.Helper()
		c := good
		c.status = status
		change(&c)
		w.do(c)
	}
	with(401, func(c *call) { c.token = "" })
	with(400, func(c *call) {
		c.path += map[bool]string{true: "&", false: "?"}[strings.Contains(c.path, "?")] + "nothing=1"
	})
	if strings.Contains(op.path, "a1") {
		with(403, func(c *call) { c.token = sign(w.t, "root", auth.RoleAdmin, "b*") })
		with(400, func(c *call) { c.path = strings.Replace(c.path, "a1", "a%201", 1) })
	}
	if op.admin {
		with(403, func(c *call) { c.token = sign(w.t, "p", auth.RolePlayer) })
	}
	for _, name := range []string{"If-Match", "If-None-Match", "If-Unmodified-Since"} {
		if op.method != http.MethodGet && !(op.matches() && name == "If-Match") {
			with(400, func(c *call) { c.headers, c.want = []string{name, `"1"`}, []string{`"field":"` + name + `"`} })
		}
	}
	defer func() {
		if s, err := w.rooms.Read(w.t.Context(), "a1"); err != nil || s.Version != 1 {
			w.t.Errorf("%s %s was refused, and the room is at version %d, %v", op.method, op.path, s.Version, err)
		}
	}()
	if op.body == "" {
		return
	}
	with(415, func(c *call) { c.headers = []string{"Content-Type", "text/plain"} })
	with(413, func(c *call) { c.body = strings.Repeat(" ", maxBody) + c.body })
	with(400, func(c *call) { c.body = "{" })
	if !strings.HasSuffix(op.path, "/data") && !strings.HasSuffix(op.path, "/private") {
		with(400, func(c *call) { c.body = strings.Replace(c.body, `":`, `x":`, 1) })
	}
}

// The description has the settings of rooms as room.Settings has them.
func TestOpenAPI_Settings(t *testing.T) {
	var d struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Maximum int      `json:"maximum"`
					Enum    []string `json:"enum"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if _, err := yaml.Unmarshal(openAPI(), &d, yaml.DecodeOpts{}); err != nil {
		t.Fatal(err)
	}
	described := d.Components.Schemas["Settings"].Properties
	if len(described) != len(room.SettingFields) {
		t.Errorf("settings are described as %+v", described)
	}
	for _, f := range room.SettingFields {
		if p := described[f.Name]; p.Maximum != f.Most || !slices.Equal(p.Enum, f.Values) {
			t.Errorf("%s is described as %+v, want %+v", f.Name, p, f)
		}
	}
}
