package page_test

import (
	"bufio"
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/node"
)

// startNode starts a node at an address, or at any free one of this machine. It ends with the test.
func startNode(t *testing.T, db *redisurl.DB, listen string, serve transport.Options) (n *node.Node, stop func()) {
	t.Helper()
	n, err := node.Start(context.Background(), node.Config{Listen: listen, Redis: db, Serve: serve})
	redistest.OK(t, err)
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = n.Shutdown(context.Background())
		}
	}
	t.Cleanup(stop)
	return n, stop
}

func openEmbedded(t *testing.T) *redisurl.DB {
	t.Helper()
	db, err := redisurl.Open(redisurl.Embedded)
	redistest.OK(t, err)
	t.Cleanup(db.Close)
	return db
}

// Two users of two nodes see the same room, whatever happens to connections and to a node.
func TestClient_TwoNodes(t *testing.T) {
	t.Parallel()
	cmd := nodeCommand(t, "testdata/nodes.js")
	db := openEmbedded(t)
	first, stop := startNode(t, db, "127.0.0.1:0", transport.Options{})
	second, _ := startNode(t, db, "127.0.0.1:0", transport.Options{})
	cmd.Args = append(cmd.Args, first.URL(), second.URL())

	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	redistest.OK(t, err)
	out, err := cmd.StdoutPipe()
	redistest.OK(t, err)
	redistest.OK(t, cmd.Start())
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		if last == "restart" {
			stop()
			startNode(t, db, first.Addr(), transport.Options{})
			_, _ = in.Write([]byte("done\n"))
		}
	}
	if err := cmd.Wait(); err != nil || last != "ok" {
		t.Errorf("nodes.js: %v\n%s", err, complaints.Bytes())
	}
}

// A client that comes back to many rooms, or asks for much at once, keeps to the node's rate by itself.
func TestClient_Rate(t *testing.T) {
	t.Parallel()
	needNode(t)
	n, _ := startNode(t, openEmbedded(t), "127.0.0.1:0", transport.Options{Rate: 100, Burst: 20})
	if out := runNode(t, "testdata/rate.js", n.URL()); out != "ok\n" {
		t.Errorf("rate.js says %q", out)
	}
}

// Tokens are renewed before they expire, and refused with a reason, in a page and elsewhere.
func TestClient_Tokens(t *testing.T) {
	t.Parallel()
	needNode(t)
	const secret = "a secret of the tests, which is long enough"
	verifier, err := auth.New(auth.Secret(secret), auth.Options{})
	redistest.OK(t, err)
	n, _ := startNode(t, openEmbedded(t), "127.0.0.1:0", transport.Options{Auth: verifier})
	for _, where := range []string{"page", "elsewhere"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			if out := runNode(t, "testdata/tokens.js", n.URL(), secret, where); out != "ok\n" {
				t.Errorf("tokens.js says %q", out)
			}
		})
	}
}

// The compiler accepts what programs do with roomd.d.ts, and refuses what they must not do.
func TestTypes_Compiler(t *testing.T) {
	t.Parallel()
	needNode(t)
	out, err := exec.Command(filepath.Join("testdata", "node_modules", ".bin", "tsc"), "-p", "testdata").CombinedOutput()
	redistest.ErrorIf(t, err != nil, "tsc: %v\n%s", err, strings.TrimSpace(string(out)))
}
