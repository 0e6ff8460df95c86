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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/certs"
	"roomd/room"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/internal/reload"
	"roomd/transport/node/roomdtest"
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
	redistest.ErrorIf(t, !strings.HasPrefix(n.URL(), "wss://127.0.0.1:"), "the URL is %s", n.URL())
	c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "a", TLS: clients})
	redistest.OK(t, err)
	defer c.Close()
	if r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil ||
		r.Count != 1 {
		t.Errorf("join: %+v, %v", r, err)
	}
	if _, err := client.Dial(t.Context(), n.URL(), client.Options{User: "b"}); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client that does not know the authority: %v", err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: clients.Clone(), ForceAttemptHTTP2: true}}
	defer web.CloseIdleConnections()
	res, err := web.Get("https://" + n.Addr() + "/healthz")
	redistest.OK(t, err)
	res.Body.Close()
	redistest.ErrorIf(t, res.StatusCode != 200 || res.Proto != "HTTP/1.1" ||
		!strings.Contains(res.Header.Get("Strict-Transport-Security"), "max-age"),
		"%s %s %v", res.Proto, res.Status, res.Header)
	for range 10 {
		plain := send(t, n, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if answer, _ := io.ReadAll(plain); !strings.HasPrefix(string(answer), "HTTP/1.0 400") {
			t.Errorf("without TLS: %q", answer)
		}
	}
	redistest.OK(t, n.Shutdown(t.Context()))
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

// A file that cannot be used is one line that names the flag and the file, and exit code 1. Flags
// that do not go together are exit code 2.
func TestTLS_UnusableFilesAndFlags(t *testing.T) {
	t.Parallel()
	authority := certs.New(t)
	cert, key := authority.Issue("a")
	_, other := authority.Issue("b")
	text, empty, lines, dir := writeFile(t, "hello"), writeFile(t, "\n"), writeFile(t, "a\nb\n"), t.TempDir()
	password := writeFile(t, "hidden\n")
	for _, tt := range []struct {
		code       int
		want, args string
	}{
		{exitWrongUse, "--tls-cert and --tls-key must", "--tls-cert " + cert},
		{exitWrongUse, "--tls-cert and --tls-key must", "--tls-key " + key},
		{exitFailed, "--tls-cert: /nowhere: no such file", "--tls-cert /nowhere --tls-key " + key},
		{exitFailed, "--tls-key: /nowhere: no such file", "--tls-key /nowhere --tls-cert " + cert},
		{exitFailed, "--tls-cert: " + empty + ": failed to find any PEM data",
			"--tls-cert " + empty + " --tls-key " + key},
		{exitFailed, "--tls-cert: " + key + ": failed to find certificate PEM data",
			"--tls-cert " + key + " --tls-key " + cert},
		{exitFailed, "--tls-key: " + text + ": failed to find any PEM data",
			"--tls-cert " + cert + " --tls-key " + text},
		{exitFailed, "--tls-key: " + other + ": does not go with " + cert,
			"--tls-cert " + cert + " --tls-key " + other},
		{exitFailed, "--tls-cert: " + dir + ": is a directory", "--tls-cert " + dir + " --tls-key " + key},
		{exitFailed, "--tls-cert: : no such file", "--tls-cert= --tls-key " + key},

		{exitWrongUse, "--redis-cert and --redis-key must", "--redis rediss://h --redis-cert " + cert},
		{exitWrongUse, "--redis-cert and --redis-key must", "--redis rediss://h --redis-key " + key},
		{exitWrongUse, "--redis-ca and --redis: ", "--redis redis://h --redis-ca " + authority.File},
		{exitWrongUse, "--redis-cert and --redis: ",
			"--redis redis+cluster://h:1 --redis-cert " + cert + " --redis-key " + key},
		{exitWrongUse, "--redis-ca and --redis: ", "--redis-ca " + authority.File},
		{exitFailed, "--redis-ca: " + key + ": no certificate", "--redis rediss://h --redis-ca " + key},
		{exitFailed, "--redis-ca: /nowhere: no such", "--redis rediss://h --redis-ca /nowhere"},
		{exitFailed, "--redis-cert: " + text + ": failed to find any PEM data",
			"--redis rediss://h --redis-cert " + text + " --redis-key " + key},
		{exitFailed, "--redis-key: " + other + ": does not go with " + cert,
			"--redis rediss://h --redis-cert " + cert + " --redis-key " + other},

		{exitWrongUse, "--redis-password-file and --redis: ",
			"--redis redis://u:hidden@h --redis-password-file " + password},
		{exitWrongUse, "--redis-password-file and --redis: ", "--redis-password-file " + password},
		{exitWrongUse, "--redis-sentinel-password-file and --redis: ",
			"--redis redis://h --redis-sentinel-password-file " + password},
		{exitFailed, "--redis-password-file: /nowhere: no such", "--redis redis://h --redis-password-file /nowhere"},
		{exitFailed, "--redis-password-file: " + empty + ": the file has no password",
			"--redis redis://h --redis-password-file " + empty},
		{exitFailed, "--redis-password-file: " + lines + ": a password is one line",
			"--redis redis://h --redis-password-file " + lines},
		{exitFailed, "Redis at 127.0.0.1:1 does not answer",
			"--redis redis://127.0.0.1:1 --redis-password-file " + password},

		{exitWrongUse, "--allow-origin must be like", "--allow-origin https://*game.example"},
		{exitWrongUse, "--allow-origin must be like", "--allow-origin *.game.example"},
	} {
		var stdout, stderr bytes.Buffer
		code := command(room.Rules{}, strings.Fields("--listen 127.0.0.1:0 "+tt.args), &stdout, &stderr)
		if said := stderr.String(); code != tt.code || !strings.Contains(said, tt.want) ||
			strings.Count(said, "\n") != 1 || strings.Contains(said, "hidden") || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d: %s; want %s", tt.args, code, tt.code, said, tt.want)
		}
	}
}

// A node speaks TLS to its clients and to Redis, with a password from a file. It takes a new
// certificate without a restart, and its log has no password.
func TestTLS_OnBothSides(t *testing.T) {
	t.Parallel()
	authority := certs.New(t)
	server, addr := redistest.StartTLS(t, authority, "--requirepass", "hidden")
	_ = server
	cert, key := authority.Issue("old")
	ourCert, ourKey := authority.Issue("client")
	n, log := startNode(t, "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--log-level", "trace",
		"--redis", "rediss://"+addr, "--redis-ca", authority.File, "--redis-cert", ourCert, "--redis-key", ourKey,
		"--redis-password-file", writeFile(t, "hidden\n"))
	trust := &tls.Config{RootCAs: authority.Pool}
	c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "a", TLS: trust})
	redistest.OK(t, err)
	defer c.Close()
	newCert, newKey := authority.Issue("new")
	for from, to := range map[string]string{newCert: cert, newKey: key} {
		redistest.OK(t, os.Rename(from, to))
	}
	name := func() string {
		conn, err := tls.Dial("tcp", n.Addr(), trust)
		redistest.OK(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	redistest.Until(t, "the new certificate is shown", func() bool { return name() == "new" })
	if r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil ||
		r.Count != 1 {
		t.Errorf("the connection from before: %+v, %v", r, err)
	}
	if text := log(); strings.Contains(text, "hidden") || strings.Contains(text, "PRIVATE") ||
		!strings.Contains(text, "connect to wss://") || !strings.Contains(text, "the new one counts") {
		t.Errorf("the log:\n%s", text)
	}
}

// What is wrong with TLS or the password of Redis ends the start with one line that says so.
func TestTLS_RedisRefuses(t *testing.T) {
	t.Parallel()
	authority := certs.New(t)
	_, addr := redistest.StartTLS(t, authority, "--requirepass", "hidden")
	cert, key := authority.Issue("client")
	wrong := writeFile(t, "hiddenwrong")
	full := "--redis-ca " + authority.File + " --redis-cert " + cert + " --redis-key " + key
	behind := "--redis rediss+sentinel://" + redistest.StartSentinelTLS(t, authority, addr, "watchword") +
		"/redistest " + full
	for args, want := range map[string]string{
		behind: "NOAUTH Authentication required.); check --redis-sentinel-password-file",
		behind + " --redis-sentinel-password-file " +
			wrong: "disabled.); check --redis-sentinel-password-file",
		behind + " --redis-sentinel-password-file " +
			writeFile(t, "watchword"): "NOAUTH Authentication required.); check --redis-password-file",
		"--redis rediss://" + addr:                                                  "certificate",
		"--redis rediss://" + addr + " --redis-ca " + authority.File:                "certificate required",
		"--redis rediss://" + addr + " " + full:                                     "NOAUTH",
		"--redis rediss://" + addr + " " + full + " --redis-password-file " + wrong: "WRONGPASS",
		"--redis redis://" + addr:                                                   "its URL begins with rediss",
	} {
		var stderr bytes.Buffer
		code := command(room.Rules{}, strings.Fields("--listen 127.0.0.1:0 "+args), &stderr, &stderr)
		if said := stderr.String(); code != exitFailed || !strings.Contains(said, want) ||
			strings.Contains(said, "hidden") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit code %d: %s; want %s", strings.ReplaceAll(args, filepath.Dir(authority.File), "…"),
				code, said, want)
		}
	}
	wantLine(t, check(t, exitFailed, strings.Fields(behind)...), levelFail, "redis", "--redis-sentinel-password-file")
}

// Without any one of the rights a node does not start, and says what is missing, on one Redis or on
// a Cluster.
func TestACL_NoRightTooMany(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Start(t), redistest.StartClusterOfOne(t)
	named := map[string]string{
		"~LockRoom:*": "SET LockRoom:*", "~Room:*": "HSET Room:*:Meta", "~Node*": "SADD Node:*:Rooms",
		"~Lobby:*": "HSET Lobby:*", "~Timers:*": "ZADD Timers:due", "~Feed:*": "HSET Feed:Rooms",
		"&LockRoom:*": "PUBLISH LockRoom:*:Wake:*", "&Room:*": "SUBSCRIBE Room:*:Events",
		"+@read": "HGETALL Room:*:Users", "+@write": "HSET Room:*:Users", "+@pubsub": "PUBLISH Room:*:Events",
		"+@scripting": "EVALSHA", "+@transaction": "MULTI", "+@connection": "PING",
		"+time": "TIME", "+info": "INFO", "+cluster": "CLUSTER SLOTS",
	}
	rights := roomdtest.Rights(t)
	if rights = slices.DeleteFunc(rights, func(r string) bool { return r[0] == '-' }); len(named) != len(rights) {
		t.Errorf("the rule has %d rights, %d are tested", len(rights), len(named))
	}
	for i, right := range rights {
		server, url := single, "redis://roomd:secret@"+single.Addr()
		if right == "+cluster" {
			server, url = cluster, "redis+cluster://roomd:secret@"+cluster.Addr()
		}
		roomdtest.Grant(t, server.Client(), slices.Delete(slices.Clone(rights), i, i+1))
		cfg, err := parse(t, "--listen", "127.0.0.1:0", "--redis", url, "--replicas", "1", "--journal", "10",
			"--feed", "10")
		redistest.OK(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		err = run(ctx, cfg, io.Discard, func(*Node) { cancel() })
		cancel()
		if err == nil || !strings.Contains(err.Error(), "does not allow") || !strings.Contains(err.Error(),
			named[right]) || strings.Contains(err.Error(), "secret") || exitCode(err) != exitFailed {
			t.Errorf("without %s: %v", right, err)
		}
	}
}
