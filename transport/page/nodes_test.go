package page_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// The package that npm makes can be installed without a network, and a program imports it with its types.
func TestPackage_Installed(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	needNode(t)
	packages, err := filepath.Abs(filepath.Join("testdata", "node_modules"))
	redistest.OK(t, err)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	run := func(in, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.WaitDelay = in, 5*time.Second
		cmd.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(dir, "cache"), "npm_config_offline=true",
			"npm_config_update_notifier=false")
		out, err := cmd.CombinedOutput()
		redistest.FatalIf(t, err != nil, "%s %v: %v\n%s", name, args, err, out)
	}
	for name, text := range map[string]string{
		"package.json": `{"private":true,"type":"module"}`,
		"game.ts": `import { connect, type Room } from "roomd"
export const room: Promise<Room> = connect("/ws", { user: "ada" }).then((client) => client.join("table-7"))
// @ts-expect-error: the types are there, so a user is no number
connect("/ws", { user: 7 })
`,
		"game.js": `import { connect } from "roomd"
if (typeof connect !== "function") throw new Error("no connect")
`,
	} {
		redistest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run(".", "npm", "pack", "--silent", "--pack-destination", dir)
	made, err := filepath.Glob(filepath.Join(dir, "roomd-*.tgz"))
	redistest.FatalIf(t, err != nil || len(made) != 1, "npm pack made %v: %v", made, err)
	run(dir, "npm", "install", "--silent", "--no-audit", "--no-fund", made[0])
	run(dir, "node", "game.js")
	run(dir, filepath.Join(packages, ".bin", "tsc"), "--noEmit", "--strict", "--target", "ES2022", "--module", "NodeNext",
		"game.ts")
}
