package roomd

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// A process that may have 64 files open tells clients when there is no room for more,
// whatever else is connected; those who are in are served; and when they go there is
// room again.
func TestLimits_FewFiles(t *testing.T) {
	server := redistest.Start(t)
	p := prepare(t, server.URL())
	p.run = []string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh"}
	p.start()
	url := "ws://" + p.addr + "/ws"
	var clients []*client.Conn
	for {
		c, err := client.Dial(t.Context(), url, client.Options{User: fmt.Sprint("player", len(clients))})
		if err != nil {
			if !errors.Is(err, protocol.ErrUnavailable) || !strings.Contains(err.Error(), "503") {
				t.Errorf("client %d: %v", len(clients), err)
			}
			break
		}
		defer c.Close()
		clients = append(clients, c)
		if len(clients) > 64 {
			t.Fatal("more clients than files")
		}
	}
	if len(clients) < 16 {
		t.Errorf("only %d clients", len(clients))
	}
	for range 100 {
		c, err := net.Dial("tcp", p.addr)
		redistest.OK(t, err)
		defer c.Close()
	}
	for _, c := range clients {
		if _, err := c.Join(t.Context(), "42"); err != nil {
			t.Error(err)
		}
	}
	for _, c := range clients {
		c.Close()
	}
	giveUp := time.Now().Add(10 * time.Second)
	for {
		c, err := client.Dial(t.Context(), url, client.Options{User: "late"})
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(giveUp) {
			t.Fatalf("nobody can come after all have gone: %v", err)
		}
	}
	p.stop(syscall.SIGTERM)
}
