package api

import (
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room/coordinator"
	"roomd/transport/auth"
)

// awaitReport waits until the first node has reported.
func (w *world) awaitReport() coordinator.NodeInfo {
	w.t.Helper()
	if err := w.rooms.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		nodes, err := w.rooms.Nodes(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, n := range nodes {
			if n.Report != nil {
				return n
			}
		}
		_ = pause.For(w.t.Context(), 10*time.Millisecond)
	}
	w.t.Fatal("no node reports")
	panic("unreachable")
}

// tryNodes asks for all that the description says of nodes.
func (w *world) tryNodes() {
	w.t.Helper()
	all, some, player := sign(w.t, "root", auth.RoleAdmin), sign(w.t, "root", auth.RoleAdmin, "a*"), sign(w.t, "p", auth.RolePlayer)
	node := w.awaitReport().Name
	drain := "/api/nodes/" + url.PathEscape(node) + "/drain"
	for _, c := range []call{
		{method: "GET", path: "/api/nodes", token: all, status: 200},
		{method: "GET", path: "/api/nodes", status: 200}, // an operator
		{method: "POST", path: drain, token: all, status: 202},
		{method: "POST", path: "/api/nodes/another/drain", status: 404, want: []string{"there is no node"}},
		{method: "POST", path: "/api/nodes/" + node, status: 404},
		{method: "POST", path: drain + "/x", status: 404},
		{method: "DELETE", path: "/api/nodes", status: 405},
	} {
		c.operator = true
		w.do(c)
	}
	for _, path := range []string{"/api/nodes", drain} {
		method := map[bool]string{true: "GET", false: "POST"}[path == "/api/nodes"]
		w.do(call{method: method, path: path, token: some, operator: true, status: 403})
		w.do(call{method: method, path: path, token: player, operator: true, status: 403})
		w.do(call{method: method, path: path, token: all + "x", operator: true, status: 401})
		w.do(call{method: method, path: path + "?x=1", operator: true, status: 400})
		w.do(call{method: method, path: path, token: all, status: 404}) // the address of game clients
	}
}

func TestNodes_Listed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, Options{})
	w.join("a1", "x") // the other node reports nothing
	name := w.awaitReport().Name
	answer := w.do(call{method: "GET", path: "/api/nodes", operator: true, status: 200})
	var got struct {
		Nodes []struct {
			Node, Admin, Version string
			Self                 bool
			AgeMS                *int64 `json:"age_ms"`
			Settings             map[string]string
			Checks               map[string]struct{ Differs []any }
		}
	}
	if err := json.Unmarshal(answer.body, &got, json.MatchCaseInsensitiveNames(true)); err != nil || len(got.Nodes) != 2 {
		t.Fatalf("%s: %v", answer.body, err)
	}
	for _, n := range got.Nodes {
		switch {
		case n.Self != (n.Node == name):
			t.Errorf("self is wrong: %+v", n)
		case n.Self && (n.Version != "v1" || n.AgeMS == nil || *n.AgeMS > 10_000 || n.Settings["capacity"] != "4" || n.Admin == "" || len(n.Checks) != 4):
			t.Errorf("%+v", n)
		case !n.Self && (n.Node != w.players.Node() || n.AgeMS != nil || n.Settings["grace"] != "10s"):
			t.Errorf("a node that is silent: %+v", n)
		}
	}
	select {
	case <-w.rooms.DrainRequested():
		t.Fatal("nobody has asked for a drain")
	default:
	}
	w.do(call{method: "POST", path: "/api/nodes/" + name + "/drain", operator: true, status: 202})
	select {
	case <-w.rooms.DrainRequested():
	case <-time.After(10 * time.Second):
		t.Fatal("the node does not hear that it is to stop")
	}
}
