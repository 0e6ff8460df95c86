package node

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/certs"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

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
		{exitFailed, "--tls-cert: " + empty + ": failed to find any PEM data", "--tls-cert " + empty + " --tls-key " + key},
		{exitFailed, "--tls-cert: " + key + ": failed to find certificate PEM data", "--tls-cert " + key + " --tls-key " + cert},
		{exitFailed, "--tls-key: " + text + ": failed to find any PEM data", "--tls-cert " + cert + " --tls-key " + text},
		{exitFailed, "--tls-key: " + other + ": does not go with " + cert, "--tls-cert " + cert + " --tls-key " + other},
		{exitFailed, "--tls-cert: " + dir + ": is a directory", "--tls-cert " + dir + " --tls-key " + key},
		{exitFailed, "--tls-cert: : no such file", "--tls-cert= --tls-key " + key},

		{exitWrongUse, "--redis-cert and --redis-key must", "--redis rediss://h --redis-cert " + cert},
		{exitWrongUse, "--redis-cert and --redis-key must", "--redis rediss://h --redis-key " + key},
		{exitWrongUse, "--redis-ca and --redis: ", "--redis redis://h --redis-ca " + authority.File},
		{exitWrongUse, "--redis-cert and --redis: ", "--redis redis+cluster://h:1 --redis-cert " + cert + " --redis-key " + key},
		{exitWrongUse, "--redis-ca and --redis: ", "--redis-ca " + authority.File},
		{exitFailed, "--redis-ca: " + key + ": no certificate", "--redis rediss://h --redis-ca " + key},
		{exitFailed, "--redis-ca: /nowhere: no such", "--redis rediss://h --redis-ca /nowhere"},
		{exitFailed, "--redis-cert: " + text + ": failed to find any PEM data", "--redis rediss://h --redis-cert " + text + " --redis-key " + key},
		{exitFailed, "--redis-key: " + other + ": does not go with " + cert, "--redis rediss://h --redis-cert " + cert + " --redis-key " + other},

		{exitWrongUse, "--redis-password-file and --redis: ", "--redis redis://u:hidden@h --redis-password-file " + password},
		{exitWrongUse, "--redis-password-file and --redis: ", "--redis-password-file " + password},
		{exitWrongUse, "--redis-sentinel-password-file and --redis: ", "--redis redis://h --redis-sentinel-password-file " + password},
		{exitFailed, "--redis-password-file: /nowhere: no such", "--redis redis://h --redis-password-file /nowhere"},
		{exitFailed, "--redis-password-file: " + empty + ": the file has no password", "--redis redis://h --redis-password-file " + empty},
		{exitFailed, "--redis-password-file: " + lines + ": a password is one line", "--redis redis://h --redis-password-file " + lines},
		{exitFailed, "Redis at 127.0.0.1:1 does not answer", "--redis redis://127.0.0.1:1 --redis-password-file " + password},

		{exitWrongUse, "--allow-origin must be like", "--allow-origin https://*game.example"},
		{exitWrongUse, "--allow-origin must be like", "--allow-origin *.game.example"},
	} {
		var stdout, stderr bytes.Buffer
		code := command(room.Rules{}, strings.Fields("--listen 127.0.0.1:0 "+tt.args), &stdout, &stderr)
		if said := stderr.String(); code != tt.code || !strings.Contains(said, tt.want) || strings.Count(said, "\n") != 1 || strings.Contains(said, "hidden") || stdout.Len() > 0 {
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
		"--redis", "rediss://"+addr, "--redis-ca", authority.File, "--redis-cert", ourCert, "--redis-key", ourKey, "--redis-password-file", writeFile(t, "hidden\n"))
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
	if r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil || r.Count != 1 {
		t.Errorf("the connection from before: %+v, %v", r, err)
	}
	if text := log(); strings.Contains(text, "hidden") || strings.Contains(text, "PRIVATE") || !strings.Contains(text, "connect to wss://") || !strings.Contains(text, "the new one counts") {
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
	behind := "--redis rediss+sentinel://" + redistest.StartSentinelTLS(t, authority, addr, "watchword") + "/redistest " + full
	for args, want := range map[string]string{
		behind: "NOAUTH Authentication required.); give another --redis-sentinel-password-file",
		behind + " --redis-sentinel-password-file " + wrong:                         "disabled.); give another --redis-sentinel-password-file",
		behind + " --redis-sentinel-password-file " + writeFile(t, "watchword"):     "NOAUTH Authentication required.); give another --redis-password-file",
		"--redis rediss://" + addr:                                                  "certificate",
		"--redis rediss://" + addr + " --redis-ca " + authority.File:                "certificate required",
		"--redis rediss://" + addr + " " + full:                                     "NOAUTH",
		"--redis rediss://" + addr + " " + full + " --redis-password-file " + wrong: "WRONGPASS",
		"--redis redis://" + addr:                                                   "its URL begins with rediss",
	} {
		var stderr bytes.Buffer
		code := command(room.Rules{}, strings.Fields("--listen 127.0.0.1:0 "+args), &stderr, &stderr)
		if said := stderr.String(); code != exitFailed || !strings.Contains(said, want) || strings.Contains(said, "hidden") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit code %d: %s; want %s", strings.ReplaceAll(args, filepath.Dir(authority.File), "…"), code, said, want)
		}
	}
	wantLine(t, check(t, exitFailed, strings.Fields(behind)...), levelFail, "redis", "--redis-sentinel-password-file")
}
