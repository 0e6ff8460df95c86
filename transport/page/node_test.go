package page_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

// npm is what installs the packages that the tests in Node need.
const npm = "npm ci --prefix transport/page/testdata"

// needNode skips a test that needs Node and its packages if they are missing; it fails where CI is set.
func needNode(t *testing.T) {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath("node"); err != nil {
		missing = "Node is not installed"
	} else if _, err := os.Stat(filepath.Join("testdata", "node_modules", "ws")); err != nil {
		missing = "packages are missing; run: " + npm
	}
	switch {
	case missing == "":
	case os.Getenv("CI") != "":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
	readScripts(t)
}

// readScripts reads what Node is going to run, so that go test sees when a cached result is out of date.
func readScripts(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"*.js", "*.ts", "*.json", "testdata/*.js", "testdata/*.ts", "testdata/*.json"} {
		names, err := filepath.Glob(pattern)
		redistest.OK(t, err)
		for _, name := range names {
			redistest.OK(t, redistest.Err(os.ReadFile(name)))
		}
	}
}

// nodeCommand returns a command that runs a script in Node. It ends with the test, killed if need be.
func nodeCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	needNode(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// runNode runs a script to its end, and returns what it has written.
func runNode(t *testing.T, args ...string) string {
	t.Helper()
	cmd := nodeCommand(t, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	redistest.ErrorIf(t, err != nil, "node %v: %v\n%s%s", args, err, out, complaints.Bytes())
	return string(out)
}
