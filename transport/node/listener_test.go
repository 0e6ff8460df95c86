package node

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// There may be 4 connections beside the one client. A further one evicts the oldest, and none
// of them hinders the client or the probes.
func TestConnectionsAreBounded(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{MaxConnections: 1}})
	a, err := client.Dial(t.Context(), n.URL(), client.Options{User: "a"})
	redistest.OK(t, err)
	defer a.Close()
	const extra = 20
	var held []net.Conn
	for i := range extra {
		held = append(held, send(t, n, []string{"", "GET /ws HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"}[i%3]))
	}
	for _, c := range held[:extra-4] {
		wantClosed(t, c)
	}
	if _, err := client.Dial(t.Context(), n.URL(), client.Options{User: "b"}); !errors.Is(err, protocol.ErrUnavailable) || !strings.Contains(err.Error(), "503") {
		t.Errorf("a client beyond the limit: %v", err)
	}
	healthy := send(t, n, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if answer, _ := io.ReadAll(healthy); !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("healthz: %q", answer)
	}
	if r, err := a.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil || r.Count != 1 {
		t.Errorf("the connected client: %+v, %v", r, err)
	}
	a.Close()
	redistest.Until(t, "a client can connect, after one has gone", func() bool {
		b, err := client.Dial(t.Context(), n.URL(), client.Options{User: "b"})
		if err == nil {
			b.Close()
		}
		return err == nil
	})
}

// from opens a connection from an address of this machine, until the test ends, and writes text to it.
func from(t *testing.T, n *Node, address, text string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := dialer.Dial("tcp", n.Addr())
	redistest.OK(t, err)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// wantAnswer finishes a request that was begun, and expects its answer.
func wantAnswer(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := io.WriteString(c, "Connection: close\r\n\r\n")
	if answer, _ := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("the answer is %q, %v", answer, err)
	}
}

// Who holds the places of connections that are no WebSockets takes further ones from itself.
func TestOneAddressKeepsNobodyFromConnecting(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{MaxConnections: 1}}) // and 4
	slow := from(t, n, "127.0.0.2", "GET /healthz HTTP/1.1\r\nHost: x\r\n")
	var flood []net.Conn
	for range 20 {
		flood = append(flood, from(t, n, "127.0.0.1", "GET /ws HTTP/1.1\r\n"))
	}
	for _, c := range flood[:len(flood)-4] {
		wantClosed(t, c)
	}
	wantAnswer(t, slow)
}

// Behind a proxy an address is what the proxy says it is, as soon as the request is there.
func TestOneAddressBehindAProxyKeepsNobodyFromConnecting(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{
		MaxConnections: 1, TrustProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}})
	ask := func(client string) net.Conn {
		c := from(t, n, "127.0.0.1", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: "+client+"\r\n\r\n")
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatalf("%s: %v", client, err)
		}
		return c // kept alive
	}
	slow := ask("198.51.100.2")
	for range 20 {
		ask("198.51.100.1")
	}
	_, err := io.WriteString(slow, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.2\r\nConnection: close\r\n\r\n")
	if answer, _ := io.ReadAll(slow); err != nil || !strings.Contains(string(answer), "HTTP/1.1 200") {
		t.Errorf("the answer is %q, %v", answer, err)
	}
}

// Who takes too long for a request is counted once, and nobody else is: not who asks in time, nor
// who is silent between two requests.
func TestLateRequestsAreCounted(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	const timeout = time.Second // long enough for the client who is in time, on a busy machine
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{
		HandshakeTimeout: timeout,
		Trace: &transport.Trace{Refused: func(limit string) {
			if limit == transport.LimitHandshake {
				late.Add(1)
			}
		}},
	}})
	kept := send(t, n, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := bufio.NewReader(kept).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	slow := 0
	for _, text := range []string{"", "GET /ws HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"} {
		c := send(t, n, text)
		_, _ = io.Copy(io.Discard, c) // until the node has closed it
		slow++
		if got := late.Load(); got != int64(slow) {
			t.Errorf("%d were counted after %q", got, text)
		}
	}
}
