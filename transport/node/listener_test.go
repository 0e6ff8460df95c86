package node

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/room/coordinator"
	"roomd/room/ratelog"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// There may be 4 connections beside the one client. A further one evicts the oldest, and none
// of them hinders the client or the probes.
func TestConnectionsAreBounded(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{MaxConnections: 1}})
	a := dial(t, n.URL(), "a")
	const extra = 20
	var held []net.Conn
	for i := range extra {
		held = append(held, send(t, n, []string{"", "GET /ws HTTP/1.1\r\n",
			"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"}[i%3]))
	}
	for _, c := range held[:extra-4] {
		wantClosed(t, c)
	}
	if _, err := client.Dial(t.Context(), n.URL(), client.Options{User: "b"}); !errors.Is(err,
		protocol.ErrUnavailable) || !strings.Contains(err.Error(), "503") {
		t.Errorf("a client beyond the limit: %v", err)
	}
	healthy := send(t, n, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if answer, _ := io.ReadAll(healthy); !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("healthz: %q", answer)
	}
	if r, err := a.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil ||
		r.Count != 1 {
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
	redistest.OK(t, redistest.Err(io.WriteString(c, text)))
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
	redistest.OK(t, redistest.Err(bufio.NewReader(kept).ReadString('\n')))
	slow := 0
	for _, text := range []string{"", "GET /ws HTTP/1.1\r\n",
		"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"} {
		c := send(t, n, text)
		_, _ = io.Copy(io.Discard, c) // until the node has closed it
		slow++
		if got := late.Load(); got != int64(slow) {
			t.Errorf("%d were counted after %q", got, text)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct{ wanted, files, clients, total int }{
		{50_000, 0, 50_000, 51_024},
		{50_000, 1 << 20, 50_000, 51_024},
		{50_000, 20_000, 17_952, 18_976},
		{50_000, 1024, 784, 896},
		{50_000, 256, 112, 128},
		{50_000, 64, 28, 32},
		{50_000, 21, 1, 5},
		{10, 64, 10, 14},
		{1, 1024, 1, 5},
	} {
		if got, err := limitsFor(tt.wanted, tt.files); err != nil || got != (limits{tt.clients, tt.total}) {
			t.Errorf("%d clients, %d files: %+v, %v", tt.wanted, tt.files, got, err)
		}
	}
	if _, err := limitsFor(50_000, 20); err == nil || !strings.Contains(err.Error(), "ulimit") {
		t.Errorf("no file for a client: %v", err)
	}
}

func start(t *testing.T, cfg Config) *Node {
	t.Helper()
	return startOn(t, cfg, "")
}

// startOn starts a node on an address, or on a free port of 127.0.0.1 if that is "".
func startOn(t *testing.T, cfg Config, listen string) *Node {
	t.Helper()
	cfg.Listen = cmp.Or(listen, "127.0.0.1:0")
	n, err := Start(t.Context(), cfg)
	redistest.OK(t, err)
	t.Cleanup(func() { _ = n.Shutdown(context.Background()) })
	return n
}

// send opens a connection, until the test ends, and writes text to it.
func send(t *testing.T, n *Node, text string) net.Conn {
	t.Helper()
	return from(t, n, "127.0.0.1", text)
}

// wantClosed waits until the node has closed the connection.
func wantClosed(t *testing.T, c net.Conn) {
	t.Helper()
	var late net.Error
	if _, err := io.Copy(io.Discard, c); errors.As(err, &late) && late.Timeout() {
		t.Error("the connection is open")
	}
}

// Shutdown ends without an error and gives the lease back, whatever HTTP connections do.
func TestShutdownWaitsForNoRequest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := start(t, Config{Redis: open(t, server.URL())})
	held := []net.Conn{
		send(t, n, ""),
		send(t, n, "GET /ws HTTP/1.1\r\n"),
		send(t, n, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"),
		send(t, n, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), // kept alive
	}
	if _, err := bufio.NewReader(held[3]).ReadString('\n'); err != nil { // the others were accepted before it
		t.Fatal(err)
	}
	if keys := server.Client().Exists(t.Context(), "Node:"+n.Name()).Val(); keys != 1 {
		t.Fatal("the node has no lease")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	redistest.OK(t, n.Shutdown(ctx))
	if keys := server.Client().Exists(t.Context(), "Node:"+n.Name()).Val(); keys != 0 {
		t.Error("the lease was not given back")
	}
	for _, c := range held {
		wantClosed(t, c)
	}
}

// Shutdown gives the lease back also if it has no time for anything else.
func TestShutdownWithoutTime(t *testing.T) {
	server := redistest.Start(t)
	n := start(t, Config{Redis: open(t, server.URL())})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("shut down with %v", err)
	}
	if keys := server.Client().Exists(t.Context(), "Node:"+n.Name()).Val(); keys != 0 {
		t.Error("the lease was not given back")
	}
}

// pipes is a listener without sockets, for a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// dial connects to the server that listens on p.
func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p <- far
	return near, nil
}

// servePipes starts the HTTP server of a node on pipes, with TLS if secure is not nil. The server
// has its time to shut down from ctx.
func servePipes(t *testing.T, secure *tls.Config) (p pipes, stop func(ctx context.Context)) {
	t.Helper()
	_, rdb := redistest.Mini(t)
	rooms, err := coordinator.New(rdb, coordinator.Options{})
	redistest.OK(t, err)
	server, err := transport.New(rooms, transport.Options{})
	redistest.OK(t, err)
	p = make(pipes)
	web := newHTTP(server.Handler(), transport.DefaultHandshakeTimeout,
		ratelog.New(slog.New(slog.DiscardHandler), slog.LevelWarn, "HTTP", ratelog.Quiet))
	if web.TLSConfig = secure; secure == nil {
		go func() { _ = web.Serve(p) }()
	} else {
		go func() { _ = web.ServeTLS(p, "", "") }()
	}
	return p, func(ctx context.Context) {
		_ = server.Shutdown(ctx)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		close(p)
		_ = web.Shutdown(ctx)
		_ = rooms.Close(ctx)
	}
}

// The server closes a connection that is slow with a request, its body or the response. A
// WebSocket may be silent for as long as its client answers pings.
func TestSlowRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := servePipes(t, nil)
		dialer := websocket.Dialer{NetDialContext: p.dial}
		ws, _, err := dialer.Dial("ws://pipes/ws?user=a", nil)
		redistest.OK(t, err)
		defer ws.Close()
		ended := make(chan error, 1)
		go func() { // answers pings
			_, _, err := ws.ReadMessage()
			ended <- err
		}()
		for name, write := range slowWriters {
			c, _ := p.dial(t.Context(), "", "")
			start := time.Now()
			go write(c)
			_ = c.SetReadDeadline(start.Add(time.Minute))
			_, err := io.Copy(io.Discard, c)
			if took := time.Since(start); err != nil || took < transport.DefaultHandshakeTimeout ||
				took > transport.DefaultHandshakeTimeout+2*time.Second {
				t.Errorf("%s: closed after %v, %v", name, took, err)
			}
			c.Close()
		}
		unread, _ := p.dial(t.Context(), "", "")
		defer unread.Close()
		fmt.Fprint(unread, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(transport.DefaultHandshakeTimeout + time.Second)
		_ = unread.SetReadDeadline(time.Now().Add(time.Minute))
		if answer, err := io.ReadAll(unread); len(answer) > 0 || err != nil {
			t.Errorf("the connection is open although nobody reads the response: %q, %v", answer, err)
		}
		time.Sleep(10 * time.Minute)
		select {
		case err := <-ended:
			t.Errorf("the WebSocket ended: %v", err)
		default:
		}
		stop(t.Context())
		<-ended
	})
}

var slowWriters = map[string]func(c net.Conn){
	"nothing": func(net.Conn) {},
	"a byte a second": func(c net.Conn) {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(c, "%c", "GET /healthz HTTP/1.1\r\nHost: example\r\nX: "[min(i, 40)]); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	},
	"a body that never comes": func(c net.Conn) {
		fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
	},
}
