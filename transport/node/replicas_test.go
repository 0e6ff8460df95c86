package node

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// Replicas are asked for, and none is there. SIGTERM ends the node in order, also with requests under way, and its
// lease is given back. What requests are answered then is TestReplicas_None of the coordinator.
func TestDrain_WithoutReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := launch(t, 1, server.URL(), "--replicas", "1", "--lock-ttl", "500ms", "--lock-wait", "1s", "--capacity", "1")[0]
	reply, err := http.Get("http://" + p.addr + "/readyz")
	redistest.OK(t, err)
	defer reply.Body.Close()
	if text, err := io.ReadAll(reply.Body); reply.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "fewer replicas") {
		t.Errorf("readyz: %d %s, %v", reply.StatusCode, text, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	a := p.player("a", nil)
	_, err = a.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"})
	if !errors.Is(err, protocol.ErrUnknown) {
		t.Fatalf("a join that no replica has: %v", err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := a.Do(ctx, protocol.Request{Action: protocol.ActionLeave, Room: "42"})
		asked <- err
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.stop(syscall.SIGTERM) // fails the test unless it ends with 0
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it has not ended within 10 s")
	}
	if err := <-asked; err == nil {
		t.Error("a leave that no replica has is acknowledged")
	}
	rdb := server.Client()
	nodes := rdb.ZRange(t.Context(), "Nodes", 0, -1).Val()
	for _, node := range nodes {
		if rdb.Exists(t.Context(), "Node:"+node).Val() > 0 {
			t.Errorf("the lease of %s is left", node)
		}
	}
}
