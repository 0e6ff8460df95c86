package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// Another module imports lockmgr by the commands and with the program of its README.
func TestAnotherModuleImportsLockmgr(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	readme, err := os.ReadFile("../lockmgr/README.md")
	redistest.OK(t, err)
	edit := regexp.MustCompile(`(?m)^    (go mod edit .*) -replace roomd=/path/to/roomd$`).FindStringSubmatch(string(readme))
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindStringSubmatch(string(readme))
	if edit == nil || program == nil {
		t.Fatal("lockmgr/README.md has no go mod edit, or no program")
	}
	root, err := filepath.Abs("..")
	redistest.OK(t, err)
	dir := t.TempDir()
	sums, err := os.ReadFile("../go.sum") // so that nothing has to be fetched
	redistest.OK(t, err)
	main := strings.Replace(program[1], "127.0.0.1:6379", redistest.Start(t).Addr(), 1)
	for name, content := range map[string][]byte{"go.sum": sums, "main.go": []byte(main)} {
		redistest.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	for _, command := range [][]string{
		{"go", "mod", "init", "invoices"},
		append(strings.Fields(edit[1]), "-replace", "roomd="+root),
		{"go", "mod", "tidy"},
		{"go", "run", "."},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
		if command[1] == "run" && !strings.Contains(string(out), "billing, fence ") {
			t.Errorf("the program said %s", out)
		}
	}
	fetchesNoneOfTheTools(t, dir)
}

// fetchesNoneOfTheTools fails the test if a build of the module in dir, into an empty cache of modules, downloads
// what only roomd's tools need: the go command leaves such modules out of a build.
func fetchesNoneOfTheTools(t *testing.T, dir string) {
	t.Helper()
	known, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	redistest.OK(t, err)
	fetched := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-modcacherw", "GOWORK=off", "GOMODCACHE="+fetched, "GOSUMDB=off",
		"GOPROXY=file://"+filepath.ToSlash(filepath.Join(strings.TrimSpace(string(known)), "cache", "download")))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go list -deps: %v\n%s", err, out)
	}
	modules, err := filepath.Glob(filepath.Join(fetched, "github.com", "*", "*@*"))
	redistest.OK(t, err)
	deeper, err := filepath.Glob(filepath.Join(fetched, "github.com", "*", "*", "*@*"))
	redistest.OK(t, err)
	all := strings.Join(append(modules, deeper...), "\n")
	if !strings.Contains(all, "go-redis") {
		t.Errorf("the client is not among what was fetched: %s", all)
	}
	for _, tool := range []string{"redislock", "redsync", "rueidis", "hdrhistogram", "kong", "websocket"} {
		if strings.Contains(all, tool) {
			t.Errorf("whoever imports lockmgr fetches %s:\n%s", tool, all)
		}
	}
}
