package node

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

const secret = "0123456789abcdef0123456789abcdef"

func writeFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key")
	redistest.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// pemPair writes a new private key and its public key.
func pemPair(t *testing.T) (private, public string) {
	t.Helper()
	open, hidden, err := ed25519.GenerateKey(rand.Reader)
	redistest.OK(t, err)
	hiddenDER, err := x509.MarshalPKCS8PrivateKey(hidden)
	redistest.OK(t, err)
	openDER, err := x509.MarshalPKIXPublicKey(open)
	redistest.OK(t, err)
	block := func(kind string, der []byte) string {
		return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	return block("PRIVATE KEY", hiddenDER), block("PUBLIC KEY", openDER)
}

// A node accepts the tokens that "roomd token" prints for its key, on any address, and no others.
func TestToken_Made(t *testing.T) {
	t.Parallel()
	private, public := pemPair(t)
	file := writeFile(t, secret+"\n")
	for name, flags := range map[string]struct{ node, token []string }{
		"secret":     {[]string{"--auth-secret", secret}, []string{"--auth-secret-file", file}},
		"public key": {[]string{"--auth-public-key", public}, []string{"--auth-private-key", private}},
		"aud and iss": {[]string{"--auth-secret-file", file, "--auth-audience=a", "--auth-issuer=i"},
			[]string{"--auth-secret", secret, "--auth-audience=a", "--auth-issuer=i"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, log := startNode(t, append([]string{"--listen", "0.0.0.0:0", "--log-level", "debug"}, flags.node...)...)
			_, port, _ := strings.Cut(n.Addr(), "]:")
			url := "ws://127.0.0.1:" + port + "/ws"
			var stdout, stderr bytes.Buffer
			args := append([]string{"token", "--user", "张三", "--rooms", "table-*,lobby", "--ttl", "1m"}, flags.token...)
			if code := command(room.Rules{}, args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
				t.Fatalf("exit code %d: %s", code, &stderr)
			}
			token, rest, _ := strings.Cut(stdout.String(), "\n")
			redistest.ErrorIf(t, rest != "", "the token is not alone: %q", &stdout)
			c, err := client.Dial(t.Context(), url, client.Options{Token: client.StaticToken(token)})
			redistest.OK(t, err)
			defer c.Close()
			if r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin,
				Room: "table-1"}); err != nil || r.Users[0].User != "张三" {
				t.Errorf("%+v, %v", r, err)
			}
			if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); !errors.Is(err,
				protocol.ErrForbidden) {
				t.Errorf("a room that the token does not allow: %v", err)
			}
			if _, err := client.Dial(t.Context(), url, client.Options{User: "张三"}); !errors.Is(err,
				client.ErrUnauthorized) {
				t.Errorf("a program without a token: %v", err)
			}
			if text := log(); strings.Contains(text, token) || strings.Contains(text, secret) ||
				!strings.Contains(text, "with a token") {
				t.Errorf("the log:\n%s", text)
			}
		})
	}
}

// startNode runs roomd until the test ends. log ends it, and returns what it has logged.
func startNode(t *testing.T, args ...string) (n *Node, log func() string) {
	t.Helper()
	cfg, err := parse(t, args...)
	redistest.OK(t, err)
	stderr := new(redistest.Log)
	n, end := runNode(t, cfg, stderr)
	return n, func() string {
		end()
		return stderr.String()
	}
}

// runNode runs roomd until the test ends, or end is called.
func runNode(t *testing.T, cfg config, stderr io.Writer) (n *Node, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan *Node, 1), make(chan error, 1)
	go func() { done <- run(ctx, cfg, stderr, func(n *Node) { ready <- n }) }()
	end = sync.OnceFunc(func() {
		cancel()
		redistest.OK(t, redistest.Receive(t, done, "the end of the node"))
	})
	select {
	case n = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(end)
	return n, end
}

// What is wrong with a key is said in one line that names the flag, and not the secret.
func TestToken_UnusableKeys(t *testing.T) {
	short := writeFile(t, secret[:31]+"\n")
	for want, args := range map[string]string{
		"--auth-secret and --auth-jwks":             "--auth-secret " + secret + " --auth-jwks x",
		"--auth-secret and --auth-secret-file":      "--auth-secret-file x --auth-secret " + secret,
		"--auth-secret-file and --auth-public-key":  "--auth-public-key x --auth-secret-file x",
		"--auth-public-key and --auth-jwks":         "--auth-public-key x --auth-jwks x",
		"--auth-secret: the secret has 31 bytes":    "--auth-secret " + secret[:31],
		"--auth-secret: the secret has 0 bytes":     "--auth-secret=",
		"--auth-secret-file: " + short + ": the":    "--auth-secret-file " + short,
		"--auth-secret-file: /nowhere: no such":     "--auth-secret-file /nowhere",
		"--auth-public-key: /nowhere: no such":      "--auth-public-key /nowhere",
		"--auth-jwks: " + short + ": not a JSON":    "--auth-jwks " + short,
		"need a key":                                "--auth-audience x",
		"a key is missing":                          "token --user a",
		"--auth-secret and --auth-private-key":      "token --user a --auth-private-key x --auth-secret " + secret,
		"--auth-private-key: /nowhere: no such":     "token --user a --auth-private-key /nowhere",
		"--auth-private-key: " + short + ": no PEM": "token --user a --auth-private-key " + short,
		"--ttl":   "token --user a --ttl 0s --auth-secret " + secret,
		"--user":  "token --auth-secret " + secret,
		"--rooms": "token --user a --rooms [ --auth-secret " + secret,
		"--role":  "token --user a --role root --auth-secret " + secret,
	} {
		var stdout, stderr bytes.Buffer
		wantCode := exitWrongUse
		if strings.Contains(want, ": /") { // it names a file
			wantCode = exitFailed
		}
		code := command(room.Rules{}, strings.Fields(args), &stdout, &stderr)
		if text := stderr.String(); code != wantCode || !strings.Contains(text, want) ||
			strings.Count(text, "\n") != 1 || strings.Contains(text, secret[:31]) || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d: %s%s; want %s", args, code, text, &stdout, want)
		}
	}
	t.Setenv("ROOMD_AUTH_SECRET", "")
	redistest.OK(t, redistest.Err(parse(t)))
	var stderr bytes.Buffer
	if code := command(room.Rules{}, nil, &stderr, &stderr); code != exitWrongUse ||
		!strings.Contains(stderr.String(), "0 bytes") {
		t.Errorf("an empty secret in the environment: exit code %d: %s", code, &stderr)
	}
}

// "roomd token --jwks" makes a set, which a node reads from its file or by its URL, and which check describes.
func TestToken_JWKS(t *testing.T) {
	t.Parallel()
	set := filepath.Join(t.TempDir(), "keys.json")
	var stdout, stderr bytes.Buffer
	if code := command(room.Rules{}, []string{"token", "--user", "ada", "--jwks", set}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	issuer := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(set))))
	defer issuer.Close()
	for _, keys := range []string{set, issuer.URL + "/keys.json"} {
		n, _ := startNode(t, "--listen", "127.0.0.1:0", "--auth-jwks", keys)
		c, err := client.Dial(t.Context(), n.URL(), client.Options{
			Token: client.StaticToken(strings.TrimSpace(stdout.String()))})
		redistest.OK(t, err)
		c.Close()
		wantLine(t, check(t, 0, "--auth-jwks", keys), levelOK, "keys", "1 (EdDSA)")
	}
	missing := issuer.URL + "/missing"
	wantLine(t, check(t, exitFailed, "--auth-jwks", missing), levelFail, "keys", "HTTP 404")
	for _, wrong := range []struct {
		flags []string
		code  int
		want  string
	}{
		{[]string{"--auth-jwks", missing}, exitFailed, "--auth-jwks: " + missing + ": the answer is HTTP 404"},
		{[]string{"--auth-jwks", "http://issuer.example/"}, exitWrongUse, "https://"},
		{[]string{"--auth-jwks", set, "--auth-jwks-private"}, exitWrongUse, "a URL of --auth-jwks"},
		{[]string{"token", "--user", "ada", "--jwks", set + ".pem"}, exitFailed, set + ".pem: file exists"},
	} {
		stderr.Reset()
		code := command(room.Rules{}, wrong.flags, &stdout, &stderr)
		redistest.ErrorIf(t, code != wrong.code || !strings.Contains(stderr.String(), wrong.want), "%q: %d, %s",
			wrong.flags, code, &stderr)
	}
}
