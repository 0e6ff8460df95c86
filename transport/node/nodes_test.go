package node

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

// ask asks the API of the node's operators, and reads the answer into to, if that is not nil.
func (n observed) ask(method, path string, to any) (status int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.AdminAddr()+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && to != nil {
		err = json.Unmarshal(body, to)
	}
	if err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode
}

// shownNode is what a test reads of a node.
type shownNode struct {
	Node, Address, Version string
	Started                int64
	Load                   struct{ Connections, Members int }
}

// nodeAt waits until the node at an address is as wanted.
func (n observed) nodeAt(address, want string, good func(shownNode) bool) shownNode {
	n.t.Helper()
	for start := time.Now(); ; {
		var all struct{ Nodes []shownNode }
		n.ask("GET", "/api/nodes", &all)
		for _, one := range all.Nodes {
			if one.Address == address && good(one) {
				return one
			}
		}
		if time.Since(start) > patience {
			n.t.Fatalf("no node at %s %s: %+v", address, want, all.Nodes)
		}
	}
}

// A node without an admin address is seen, and drained, by that of another one. What starts in its
// place goes on.
func TestDrain_FromAfar(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	url1 := redistest.Start(t).URL()
	n, p := observe(t, url1, nil), prepare(t, url1)
	p.start()
	c := p.player("a", nil)
	join(t, c, "42")
	seen := n.nodeAt(p.addr, "shows its player", func(s shownNode) bool { return s.Load.Connections == 1 && s.Load.Members == 1 })
	if seen.Version == "" || time.Since(time.UnixMilli(seen.Started)) > time.Minute {
		t.Errorf("%+v", seen)
	}
	drain := "/api/nodes/" + url.PathEscape(seen.Node) + "/drain"
	if status := n.ask("POST", drain, nil); status != http.StatusAccepted {
		t.Fatalf("status %d", status)
	}
	select {
	case <-c.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the client is not asked to reconnect")
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the node ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the node does not end")
	}
	if status := n.ask("POST", drain, nil); status != http.StatusNotFound {
		t.Errorf("a node that is gone: status %d", status)
	}
	p.start()
	next := n.nodeAt(p.addr, "has come in its place", func(s shownNode) bool { return s.Node != seen.Node })
	join(t, p.player("a", nil), "42")
	n.nodeAt(p.addr, "goes on", func(s shownNode) bool { return s.Node == next.Node && s.Load.Connections == 1 })
}
