package api

import (
	"testing"

	"roomd/lockmgr/redistest"
)

// Settings that another version, or somebody by hand, has written are shown as this version uses them. What is no
// settings at all makes the request fail, and the same request will not succeed soon.
func TestRead_SettingsOfAnotherVersion(t *testing.T) {
	for text, want := range map[string]string{
		`{"capacity":70000}`:                              `"settings":{"capacity":65536,"closed":false,"keep":false,"data":"members","watch":"all"}`,
		`{"capacity":-1,"watch":"friends","data":"host"}`: `"settings":{"capacity":0,"closed":false,"keep":false,"data":"admins","watch":"members"}`,
		`{"capacity":2,"colour":"red"}`:                   `"settings":{"capacity":2,`,
		`{"capacity":`:                                    "",
		`7`:                                               "",
		`{"capacity":"many"}`:                             "",
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
