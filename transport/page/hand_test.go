package page_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// The client by hand of the protocol's pages follows a room, comes back when its node has restarted, and ends
// when a newer session of its user takes over.
func TestProtocol_ClientByHand(t *testing.T) {
	t.Parallel()
	needNode(t)
	script := programIn(t, "../protocol/v1/by-hand.md")
	db := openEmbedded(t)
	n, stop := startNode(t, db, "127.0.0.1:0", transport.Options{})
	other, _ := startNode(t, db, "127.0.0.1:0", transport.Options{})
	cmd := nodeCommand(t, script, n.URL()+"?user=a", "42")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	redistest.OK(t, err)
	lines := bufio.NewScanner(out)
	until := func(want string) {
		t.Helper()
		var seen []string
		for lines.Scan() {
			if seen = append(seen, lines.Text()); strings.HasSuffix(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("it never said %q, but %q", want, seen)
	}
	until("1 0:a")
	b, err := client.Dial(t.Context(), other.URL(), client.Options{User: "b"})
	redistest.OK(t, err)
	defer b.Close()
	redistest.OK(t, redistest.Err(b.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})))
	until("2 0:a 1:b")
	stop()
	startNode(t, db, n.Addr(), transport.Options{})
	until("0:a 1:b")
	reply, err := b.Do(t.Context(), protocol.Request{Action: protocol.ActionUsers, Room: "42"})
	redistest.ErrorIf(t, err != nil || !slices.Equal(reply.Users, []protocol.Seated{{User: "a"}, {User: "b", Seat: 1}}),
		"%+v, %v", reply, err)
	a, err := client.Dial(t.Context(), other.URL(), client.Options{User: "a"})
	redistest.OK(t, err)
	defer a.Close()
	redistest.OK(t, redistest.Err(a.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})))
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The client by hand comes back when it is not let in, and when its request is refused for now.
func TestProtocol_ClientByHandComesBack(t *testing.T) {
	t.Parallel()
	needNode(t)
	var tries atomic.Int32
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol.Subprotocol}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		try := tries.Add(1)
		if try == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		reply := `{"id":1,"error":{"code":"unavailable","retry":true}}`
		if try > 2 {
			reply = `{"id":1,"error":{"code":"room_full"}}`
		}
		if err := ws.WriteMessage(websocket.TextMessage, []byte(reply)); err != nil {
			t.Error(err)
		}
		for err == nil {
			_, _, err = ws.ReadMessage()
		}
	}))
	defer server.Close()
	if said := runNode(t, programIn(t, "../protocol/v1/by-hand.md"), "ws"+strings.TrimPrefix(server.URL, "http"), "42"); said != "out: room_full\n" || tries.Load() != 3 {
		t.Errorf("after %d tries it said %q", tries.Load(), said)
	}
}
