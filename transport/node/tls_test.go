package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/certs"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/internal/reload"
	"roomd/transport/protocol"
)

// certified returns the configuration of a server that authority has certified, and that of its
// clients.
func certified(t *testing.T) (server, clients *tls.Config) {
	t.Helper()
	authority := certs.New(t)
	cert, key := authority.Issue("node")
	server, err := reload.ServeTLS(cert, key, slog.New(slog.DiscardHandler))
	redistest.OK(t, err)
	return server, &tls.Config{RootCAs: authority.Pool, ServerName: "localhost"}
}

// A node with a certificate speaks TLS, and HTTP/1.1 also with what offers HTTP/2.
func TestTLS(t *testing.T) {
	var log bytes.Buffer
	server, clients := certified(t)
	server.NextProtos = nil // the node sees to it, whatever it is given
	n := start(t, Config{Redis: open(t, redisurl.Embedded), TLS: server, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.HasPrefix(n.URL(), "wss://127.0.0.1:") {
		t.Errorf("the URL is %s", n.URL())
	}
	c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "a", TLS: clients})
	redistest.OK(t, err)
	defer c.Close()
	if r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil || r.Count != 1 {
		t.Errorf("join: %+v, %v", r, err)
	}
	if _, err := client.Dial(t.Context(), n.URL(), client.Options{User: "b"}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client that does not know the authority: %v", err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: clients.Clone(), ForceAttemptHTTP2: true}}
	defer web.CloseIdleConnections()
	res, err := web.Get("https://" + n.Addr() + "/healthz")
	redistest.OK(t, err)
	res.Body.Close()
	if res.StatusCode != 200 || res.Proto != "HTTP/1.1" || !strings.Contains(res.Header.Get("Strict-Transport-Security"), "max-age") {
		t.Errorf("%s %s %v", res.Proto, res.Status, res.Header)
	}
	for range 10 {
		plain := send(t, n, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if answer, _ := io.ReadAll(plain); !strings.HasPrefix(string(answer), "HTTP/1.0 400") {
			t.Errorf("without TLS: %q", answer)
		}
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	var closed *client.CloseError
	if <-c.Done(); !errors.As(c.Err(), &closed) || closed.Code != protocol.CloseRestart {
		t.Errorf("the client ended with %v", c.Err())
	}
	if lines := strings.Count(log.String(), "level=WARN"); lines != 2 { // an episode, and its end
		t.Errorf("clients have caused %d lines:\n%s", lines, &log)
	}
}

// clientHello returns the first message of a TLS handshake.
func clientHello(t *testing.T, config *tls.Config) string {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(near, config).HandshakeContext(t.Context())
	}()
	record := make([]byte, 5)
	_, err := io.ReadFull(far, record)
	redistest.OK(t, err)
	body := make([]byte, int(record[3])<<8|int(record[4]))
	if _, err = io.ReadFull(far, body); err != nil {
		t.Fatal(err)
	}
	far.Close()
	<-done
	return string(record) + string(body)
}

// A TLS handshake has as long as a request.
func TestSlowHandshakes(t *testing.T) {
	server, clients := certified(t)
	hello := clientHello(t, clients)
	synctest.Test(t, func(t *testing.T) {
		p, stop := servePipes(t, server)
		for _, sent := range []string{"", hello[:5], hello} {
			c, _ := p.dial(t.Context(), "", "")
			begin := time.Now()
			go func() { _, _ = io.WriteString(c, sent) }()
			_ = c.SetReadDeadline(begin.Add(time.Minute))
			_, err := io.Copy(io.Discard, c)
			if took := time.Since(begin); err != nil || took != transport.DefaultHandshakeTimeout {
				t.Errorf("%d bytes of a handshake: closed after %v, %v", len(sent), took, err)
			}
			c.Close()
		}
		stop(t.Context())
	})
}

// What ends connections at once does not wait for clients that read nothing, as the end of TLS
// would, for five seconds each.
func TestAbortWaitsForNoGoodbye(t *testing.T) {
	server, clients := certified(t)
	p, stop := servePipes(t, server)
	dialer := websocket.Dialer{NetDialContext: p.dial, TLSClientConfig: clients}
	for _, user := range []string{"a", "b", "c", "d"} {
		ws, _, err := dialer.Dial("wss://localhost/ws?user="+user, nil)
		redistest.OK(t, err)
		defer ws.NetConn().(*tls.Conn).NetConn().Close()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan bool, 1)
	go func() {
		stop(ended)
		stopped <- true
	}()
	redistest.Receive(t, stopped, "the end of the server")
}
