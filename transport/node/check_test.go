package node

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/certs"
	"roomd/room"
	"roomd/room/coordinator/inspect"
	"roomd/transport/protocol"
)

// check runs "roomd check" on a Redis, and returns its lines without the address of the server.
func check(t *testing.T, wantCode int, args ...string) (lines string) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"check", "--listen", "127.0.0.1:0", "--max-connections", "100"}, args...)
	if code := command(room.Rules{}, args, &out, &errs); code != wantCode {
		t.Errorf("%v: exit code %d, want %d: %s\n%s", args, code, wantCode, &errs, &out)
	}
	return out.String()
}

// wantLine wants a line of that level and check that has text.
func wantLine(t *testing.T, lines, level, check, text string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, fmt.Sprintf("%-5s %-12s ", level, check)) && strings.Contains(line, text) {
			return
		}
	}
	t.Errorf("no line %s %s with %q in\n%s", level, check, text, lines)
}

// What a server is set up for is told, and what to do about it.
func TestCheck_Servers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		redis, roomd       string // their flags
		level, check, text string
	}{
		{"", "", levelOK, "redis", "127.0.0.1:"},
		{"", "", levelOK, "rights", "all that a node does"},
		{"", "", levelOK, "clock", "±"},
		{"", "", levelOK, "round trip", "answers in"},
		{"", "", levelOK, "nodes", "none"},
		{"", "", levelWarn, "persistence", "keeps nothing on disk"},
		{"--save 3600 1", "", levelWarn, "persistence", "save 3600 1"},
		{"--appendonly yes --appendfsync always", "", levelOK, "persistence", "loses nothing"},
		{"--appendonly yes", "", levelOK, "persistence", "the last second"},
		{"--appendonly yes --appendfsync no", "", levelWarn, "persistence", "appendfsync always"},
		{"--maxmemory-policy allkeys-lru", "", levelWarn, "memory", "noeviction"},
		{"--maxmemory-policy allkeys-lru --maxmemory 100mb", "", levelFail, "memory", "evicts keys"},
		{"--maxmemory 100mb", "", levelOK, "memory", "of 100 MiB"},
		{"", "--replicas 1", levelFail, "replicas", "ends as unknown"},
		{"--min-replicas-to-write 1", "", levelFail, "replicas", "refuses writes"},
		{"--replicaof 127.0.0.1 1", "", levelFail, "redis", "read-only replica"},
	} {
		code := 0
		if test.level == levelFail {
			code = exitFailed
		}
		server := redistest.Start(t, strings.Fields(test.redis)...)
		lines := check(t, code, append(strings.Fields(test.roomd), "--redis", server.URL())...)
		wantLine(t, lines, test.level, test.check, test.text)
		if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("%v are left", keys)
		}
	}
}

// What no server here can be brought to say.
func TestCheck_OtherServers(t *testing.T) {
	t.Parallel()
	cfg, err := parse(t, "--replicas", "1", "--redis", "redis://h:1")
	redistest.OK(t, err)
	good := inspect.Server{Address: "h:1", Product: "Valkey 8.1.1", Mode: "standalone", Policy: "noeviction",
		AppendOnly: true, Replicas: 2, RoundTrip: time.Millisecond}
	for _, test := range []struct {
		change             func(s *inspect.Server)
		level, check, text string
	}{
		{func(s *inspect.Server) {}, levelOK, "replicas", "2 replicas"},
		{func(s *inspect.Server) { s.Product, s.TooOld = "Redis 6.2.14", true }, levelFail, "redis", "7.0"},
		{func(s *inspect.Server) {}, levelOK, "redis", "Valkey 8.1.1"},
		{func(s *inspect.Server) { s.Product = "" }, levelOK, "redis", ""},
		{func(s *inspect.Server) { s.NoRunID = true }, levelWarn, "restarts", "older copy"},
		{func(s *inspect.Server) { s.Loading = true }, levelFail, "redis", "loading"},
		{func(s *inspect.Server) { s.WriteFailed = "AOF" }, levelFail, "persistence", "disk full"},
		{func(s *inspect.Server) { s.AppendOnly = false }, levelWarn, "persistence", "if there are any"},
		{func(s *inspect.Server) { s.UsedMemory, s.MaxMemory = 79, 100 }, levelOK, "memory", "79 %"},
		{func(s *inspect.Server) { s.UsedMemory, s.MaxMemory = 80, 100 }, levelWarn, "memory", "80 %"},
		{func(s *inspect.Server) { s.UsedMemory, s.MaxMemory = 95, 100 }, levelFail, "memory", "95 %"},
		{func(s *inspect.Server) { s.Replicas = 1 }, levelWarn, "replicas", "exactly"},
		{func(s *inspect.Server) { s.ClockAhead, s.ClockError = -3*time.Second, time.Second }, levelWarn, "clock",
			"-3s ahead"},
		{func(s *inspect.Server) { s.ClockAhead, s.ClockError = 3*time.Second, 2*time.Second }, levelOK, "clock",
			"±2s"},
		{func(s *inspect.Server) { s.RoundTrip = 20 * time.Millisecond }, levelWarn, "round trip", "closer"},
		{func(s *inspect.Server) { s.RoundTrip = 400 * time.Millisecond }, levelFail, "round trip", "--lock-ttl"},
		{func(s *inspect.Server) { s.Mode, s.Config = "cluster", &inspect.Config{FullCoverage: true} }, levelWarn,
			"coverage", "no"},
	} {
		s := good
		test.change(&s)
		var found findings
		found.server(&asked{cfg: cfg}, &s)
		var lines bytes.Buffer
		redistest.OK(t, found.write(&lines, false))
		wantLine(t, lines.String(), test.level, test.check, test.text)
	}
}

// A user without CONFIG, as where Redis is rented, is told less; one without a right is told which.
func TestCheck_Rights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes")
	rules := strings.Fields("~LockRoom:* ~Room:* ~Node* ~Lobby:* ~Timers:* &LockRoom:* &Room:* +@read +@write +@pubsub +@scripting +@transaction +@connection +time +wait +info +cluster")
	user := func(name string, more ...string) string {
		args := []any{"ACL", "SETUSER", name, "on", ">secret"}
		for _, rule := range append(rules, more...) {
			args = append(args, rule)
		}
		redistest.OK(t, server.Client().Do(t.Context(), args...).Err())
		return strings.Replace(server.URL(), "redis://", "redis://"+name+":secret@", 1)
	}
	lines := check(t, 0, "--redis", user("rented"))
	wantLine(t, lines, levelOK, "persistence", "appendonly yes")
	wantLine(t, lines, levelOK, "rights", "")
	lines = check(t, exitFailed, "--redis", user("few", "-hset", "-publish"))
	wantLine(t, lines, levelFail, "rights", "HSET Room:*:Meta")
	wantLine(t, lines, levelFail, "rights", "ACL SETUSER")
	if lines = check(t, exitFailed, "--redis", user("blind", "-info")); strings.Contains(lines, "secret") {
		t.Errorf("it tells the password:\n%s", lines)
	}
	wantLine(t, lines, levelWarn, "redis", "+info")
}

// Other nodes with other settings, and a port that is taken.
func TestCheck_NodesAndAddress(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nodes := launch(t, 1, server.URL(), "--grace", "7s", "--lock-ttl", "2s")
	wantLine(t, check(t, 0, "--redis", server.URL(), "--grace", "7s", "--lock-ttl", "2s"), levelOK, "nodes",
		"1 on this Redis, with the same")
	lines := check(t, exitFailed, "--redis", server.URL(), "--listen", nodes[0].addr)
	wantLine(t, lines, levelWarn, "nodes", "grace 7s instead of 10s, lock-ttl 2s instead of 3s")
	wantLine(t, lines, levelWarn, "nodes", nodes[0].addr)
	wantLine(t, lines, levelFail, "listen", "another process listens")
	nodes[0].stop(syscall.SIGTERM)
	wantLine(t, check(t, 0, "--redis", server.URL(), "--admin-listen", "127.0.0.1:0"), levelOK, "listen",
		"--admin-listen: 127.0.0.1:0 is free")
	wantLine(t, check(t, exitFailed, "--redis", server.URL(), "--listen", nodes[0].addr, "--admin-listen",
		nodes[0].addr), levelFail, "listen", "the same address")
}

// What cannot be used, or reached, is a finding as well.
func TestCheck_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	wantLine(t, check(t, exitFailed, "--redis", "http://x"), levelFail, "redis", "--redis")
	wantLine(t, check(t, exitFailed, "--auth-jwks", "/nowhere"), levelFail, "keys", "--auth-jwks")
	wantLine(t, check(t, exitFailed, "--webhook", "https://game.example", "--webhook-secret-file", "/nowhere",
		"--feed", "10", "--journal", "10"), levelFail, "webhooks", "--webhook-secret-file: /nowhere: no such file")
	wantLine(t, check(t, exitFailed, "--listen", "0.0.0.0:0"), levelFail, "flags", "--listen")
	wantLine(t, check(t, exitFailed, "--listen", "192.0.2.1:80", "--insecure"), levelFail, "listen", "192.0.2.1")
	wantLine(t, check(t, 0, "--listen", "0.0.0.0:0", "--insecure"), levelWarn, "keys", "--insecure")
	wantLine(t, check(t, 0, "--auth-secret", strings.Repeat("x", 32)), levelOK, "keys", "--auth-secret")
	wantLine(t, check(t, 0), levelWarn, "redis", "embedded")
	if lines := check(t, exitWrongUse, "--capacity", "-1"); lines != "" {
		t.Errorf("wrong use: %s", lines)
	}
	if lines := check(t, exitFailed, "--listen", "0.0.0.0:0"); strings.Contains(lines, "the node listens on loopback") {
		t.Errorf("the address is not on loopback:\n%s", lines)
	}
	locked := redistest.Start(t)
	redistest.OK(t, locked.Client().ConfigSet(t.Context(), "requirepass", "x").Err())
	wantLine(t, check(t, exitFailed, "--redis", locked.URL()), levelFail, "redis",
		"NOAUTH Authentication required.). Check --redis-password-file")
	server.Pause()
	wantLine(t, check(t, exitFailed, "--redis", server.URL()), levelFail, "redis", "does not answer")
	server.Resume()
	server.Kill()
	wantLine(t, check(t, exitFailed, "--redis", server.URL()), levelFail, "redis", "connection refused")
	other, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
	defer other.Close()
	wantLine(t, check(t, exitFailed, "--listen", other.Addr().String()), levelFail, "listen", "another process")
}

// A Cluster is checked on each master, and its servers are no single Redis.
func TestCheck_Cluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	lines := check(t, 0, "--redis", "redis+cluster://"+strings.Join(c.Addrs(), ","))
	wantLine(t, lines, levelOK, "cluster", "3 masters")
	wantLine(t, lines, levelWarn, "coverage", "cluster-require-full-coverage no")
	for _, addr := range c.Addrs() {
		wantLine(t, lines, levelOK, "redis", addr)
	}
	wantLine(t, check(t, exitFailed, "--redis", "redis://"+c.Addrs()[0]), levelFail, "redis", "redis+cluster://")
}

func TestCheck_JSON(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{redistest.Start(t).URL(): true, "redis://127.0.0.1:1": false} {
		code := 0
		if !ok {
			code = exitFailed
		}
		var report struct {
			OK       *bool
			Findings []finding
		}
		redistest.OK(t, json.Unmarshal([]byte(check(t, code, "--json", "--redis", url)), &report))
		redistest.ErrorIf(t, report.OK == nil || *report.OK != ok || len(report.Findings) < 3 ||
			report.Findings[0].Level != levelOK,
			"%s: %+v", url, report)
	}
}

// Behind Sentinels the master is checked; a Sentinel itself is no Redis to keep rooms in.
func TestCheck_Sentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	lines := check(t, 0, "--redis", "redis+sentinel://"+strings.Join(s.Addrs(), ",")+"/"+s.MasterName())
	wantLine(t, lines, levelOK, "redis", s.Primary().Addr())
	wantLine(t, lines, levelWarn, "replicas", "--replicas 1")
	wantLine(t, check(t, exitFailed, "--redis", "redis://"+s.Addrs()[0]), levelFail, "redis", "redis+sentinel://")
	wantLine(t, check(t, exitFailed, "--redis", s.Replica().URL()), levelFail, "redis", "read-only replica")
}

// Whether others will accept the certificates of a node, today and soon, is told.
func TestCheck_Certificates(t *testing.T) {
	t.Parallel()
	authority := certs.New(t)
	pair := func(left time.Duration) []string {
		cert, key := authority.IssueUntil("localhost", time.Now().Add(left))
		return []string{"--tls-cert", cert, "--tls-key", key}
	}
	for _, tt := range []struct {
		what        string
		flags       []string
		level, text string
	}{
		{"a good one", pair(110 * time.Minute), levelOK, "--tls-cert expires at 20"},
		{"one that expires soon", pair(10 * time.Minute), levelWarn, "--tls-cert expires soon, at 20"},
		{"an expired one", pair(-time.Minute), levelFail, "--tls-cert expired at 20"},
		{"one of tomorrow", pair(24 * time.Hour), levelFail, "--tls-cert is not valid before 20"},
		{"the key of another", []string{"--tls-cert", pair(time.Hour)[1], "--tls-key", pair(time.Hour)[3]}, levelFail,
			"--tls-key: "},
	} {
		code := 0
		if tt.level == levelFail {
			code = exitFailed
		}
		t.Run(tt.what, func(t *testing.T) { wantLine(t, check(t, code, tt.flags...), tt.level, "tls", tt.text) })
	}
	cert, key := authority.IssueUntil("node", time.Now().Add(-time.Minute))
	wantLine(t, check(t, exitFailed, "--redis", "rediss://127.0.0.1:1", "--redis-cert", cert, "--redis-key", key),
		levelFail, "tls", "Redis will refuse it")
}

// A certificate that names its host only as its subject, as old scripts make them, is accepted by no client.
func TestCheck_CertificateWithoutNames(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	redistest.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	redistest.OK(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	redistest.OK(t, err)
	file := func(kind string, der []byte) string {
		return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	lines := check(t, exitFailed, "--tls-cert", file("CERTIFICATE", cert), "--tls-key", file("PRIVATE KEY", private))
	wantLine(t, lines, levelFail, "tls", "subjectAltName")
}

// A check asks Redis with the same password files as a node.
func TestCheck_PasswordFile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "hidden")
	wantLine(t, check(t, 0, "--redis", "redis://"+server.Addr(), "--redis-password-file", writeFile(t, "hidden\n")),
		levelOK, "rights", "all that a node does")
}

// A program that has kept users in Redis before has left its lists there. A player hears that trying again will not
// help, an operator which key it is, and nothing is written; "roomd check" and the log say so once.
func TestForeign_ListsOfAnotherProgram(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t) // miniredis words its errors otherwise
	rdb := server.Client()
	redistest.OK(t, rdb.RPush(t.Context(), "Room:42:Users", "李四", "王五").Err())
	redistest.OK(t, rdb.Set(t.Context(), "Room:43:Users", `["李四","王五"]`, 0).Err())
	before := rdb.Dump(t.Context(), "Room:42:Users").Val() + rdb.Dump(t.Context(), "Room:43:Users").Val()
	n, log := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--redis", server.URL(),
		"--log-format", "json")
	c := dial(t, n.URL(), "张三")
	for id, kind := range map[string]string{"42": "list", "43": "string"} {
		_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: id})
		refusal, is := errors.AsType[*protocol.Error](err)
		if !is || refusal.Code != protocol.CodeInternal || refusal.Retry ||
			!strings.Contains(refusal.Message, "another program's") ||
			!strings.Contains(refusal.Message, "nothing was written") || strings.Contains(refusal.Message, "李四") {
			t.Errorf("a player of room %s hears %v", id, err)
		}
		status, problem := getProblem(t, "http://"+n.AdminAddr()+"/api/rooms/"+id)
		if status != http.StatusInternalServerError || problem.Code != protocol.CodeInternal || problem.Retry ||
			!strings.Contains(problem.Detail, "Room:"+id+":Users is a "+kind+" and not a hash") ||
			!strings.Contains(problem.Detail, "rename or delete") {
			t.Errorf("an operator who looks at room %s hears %d %+v", id, status, problem)
		}
	}
	if after := rdb.Dump(t.Context(), "Room:42:Users").Val() +
		rdb.Dump(t.Context(), "Room:43:Users").Val(); after != before {
		t.Error("the lists are not what they were")
	}
	wantLine(t, check(t, 0, "--redis", server.URL()), levelWarn, "rooms",
		"2 rooms refuse every action, since another program has written under their keys, the first of them Room:42:Users, which is a list")
	c.Close()
	// over WebSockets, and over HTTP
	if lines := log(); strings.Count(lines, `"requests fail: internal"`) > 2 ||
		!strings.Contains(lines, ":Users is a ") {
		t.Errorf("the log says\n%s", lines)
	}
}

func getProblem(t *testing.T, url string) (status int, problem struct {
	Code, Detail string
	Retry        bool
}) {
	t.Helper()
	status, text := get(t, url)
	redistest.OK(t, json.Unmarshal([]byte(text), &problem))
	return status, problem
}

// A search finds the keys of rooms only, and a Redis without any is fine.
func TestForeign_None(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	redistest.OK(t, rdb.RPush(t.Context(), "Rooms:42:Users", "a").Err())
	redistest.OK(t, rdb.HSet(t.Context(), "Room:42:Users", "a", "1").Err())
	wantLine(t, check(t, 0, "--redis", server.URL()), levelOK, "rooms", "no key")
}
