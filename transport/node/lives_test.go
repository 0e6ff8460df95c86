package node

import (
	"syscall"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

// launch starts n roomd processes on one Redis, with the given flags.
func launch(t *testing.T, n int, redisURL string, flags ...string) []*process {
	t.Helper()
	var nodes []*process
	for range n {
		p := prepare(t, redisURL, flags...)
		p.start()
		nodes = append(nodes, p)
	}
	return nodes
}

// prepare returns a process that ends with the test, at the latest.
func prepare(t *testing.T, redisURL string, flags ...string) *process {
	t.Helper()
	addr := roomdtest.FreeAddr(t)
	p := &process{t: t, addr: addr, args: append([]string{"--listen", addr, "--redis", redisURL}, flags...)}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		_ = p.cmd.Wait()
	})
	return p
}

// url is where game clients connect.
func (p *process) url() string { return "ws://" + p.addr + "/ws" }

// player is connected to a node.
func (p *process) player(name string, events func(*protocol.Event)) *client.Conn {
	p.t.Helper()
	c, err := client.Dial(p.t.Context(), p.url(), client.Options{User: name, OnEvent: events})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

func join(t *testing.T, c *client.Conn, room string) *protocol.Reply {
	t.Helper()
	r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: room})
	redistest.OK(t, err)
	return r
}
