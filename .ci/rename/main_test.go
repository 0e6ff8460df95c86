package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// These tests import nothing of the module, whose path may be another one by now.

const to = "github.com/someone/game-rooms"

func TestReplace(t *testing.T) {
	t.Parallel()
	for _, text := range [][2]string{
		{"module roomd\n\ngo 1.26", "module " + to + "\n\ngo 1.26"},
		{"\t\"roomd/room\"\n", "\t\"" + to + "/room\"\n"},
		{"import . \"roomd/transport/node\"", "import . \"" + to + "/transport/node\""},
		{"`go doc roomd/transport/node`", "`go doc " + to + "/transport/node`"},
		{"go mod edit -require roomd@v0.0.0 -replace roomd=/path/to/roomd", "go mod edit -require " + to + "@v0.0.0 -replace " + to + "=/path/to/roomd"},
		{`"-replace", "roomd="+root`, `"-replace", "` + to + `="+root`},
		{`strings.CutPrefix(imported, "roomd/")`, `strings.CutPrefix(imported, "` + to + `/")`},
		{"../../transport/node/testdata cmd/roomd/deploy ./cmd/roomd /etc/roomd/roomd.env roomd/haproxy", ""},
		{"roomd.Main runs roomd --redis redis://roomd@host", ""},
		{"@roomd/transport", ""},
	} {
		want := text[1]
		if want == "" {
			want = text[0]
		}
		if got := string(replace([]byte(text[0]), "roomd", to)); got != want {
			t.Errorf("%q is %q now, instead of %q", text[0], got, want)
		}
	}
}

func TestRename_Refuses(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "roomd", "https://github.com/a/b", "github.com/a b", "github.com/a/$1"} {
		if n, err := rename(t.TempDir(), path); err == nil || !strings.Contains(err.Error(), "path of a module") {
			t.Errorf("%q: %d, %v", path, n, err)
		}
	}
}

// In a clone with another path all imports are found, and the breakages find what they look for. With
// ROOMD_TESTS=nightly it is built, too, and the tests of the structure run there, which takes minutes.
func TestRename_Clone(t *testing.T) {
	nightly := os.Getenv("ROOMD_TESTS") == "nightly"
	if !nightly && os.Getenv("ROOMD_TESTS") != "thorough" {
		t.Skip("takes long: runs with ROOMD_TESTS=thorough")
	}
	dir := filepath.Join(t.TempDir(), "clone")
	run := func(in string, command ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run(".", "git", "clone", "--quiet", "../..", dir)
	changed, err := rename(dir, to)
	if err != nil || changed < 100 {
		t.Fatalf("%d files changed, %v", changed, err)
	}
	if module := run(dir, "go", "list", "-m"); module != to {
		t.Errorf("the module is %s", module)
	}
	if unformatted := run(dir, "gofmt", "-l", "."); unformatted != "" {
		t.Errorf("not formatted: %s", unformatted)
	}
	run(dir, "go", "list", "-deps", "-test", "./...")
	run(dir, "go", "run", "./.ci/mutants", "-check")
	if nightly {
		run(dir, "go", "test", "-count=1", "-run", "Imports", "./cmd")
		run(dir, "go", "vet", "./...")
	}
	if again, err := rename(dir, "github.com/someone/else"); err != nil || again != changed {
		t.Errorf("back again: %d files instead of %d, %v", again, changed, err)
	}
}
