package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roomd/loadtest/bench"
	"roomd/lockmgr/redistest"
)

func TestBench_Reports(t *testing.T) {
	t.Parallel()
	page, profile := filepath.Join(t.TempDir(), "bench.html"), filepath.Join(t.TempDir(), "cpu")
	args := []string{"bench", "--redis", "embedded", "--only", "sadd,roomd", "--workload", "members-10", "--duration",
		"100ms"}
	var stdout, stderr bytes.Buffer
	redistest.OK(t, run(t.Context(), append(args, "--json", "-", "--html", page, "--cpu-profile", profile), &stdout,
		&stderr))
	var r bench.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || r.Workloads["members-10"]["roomd"] == nil {
		t.Errorf("standard output is not the report: %v\n%s", err, &stdout)
	}
	if !strings.Contains(stderr.String(), "×sadd") || !strings.Contains(stderr.String(), "[2/2]") {
		t.Errorf("no table or no progress on standard error:\n%s", &stderr)
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte(`class="chart"`)) {
		t.Errorf("the page: %v", err)
	}
	if file, err := os.Stat(profile); err != nil || file.Size() == 0 {
		t.Errorf("the profile: %v", err)
	}
	stdout.Reset()
	if err := run(t.Context(), args, &stdout, &stderr); err != nil || !strings.Contains(stdout.String(), "×sadd") {
		t.Errorf("%v: standard output is\n%s", err, &stdout)
	}
}

// The program starts itself again for servers and clients.
func TestBench_Processes(t *testing.T) {
	redistest.Thorough(t)
	profile := filepath.Join(t.TempDir(), "heap")
	args := []string{"bench", "--workload", "memory", "--connections", "20", "--heap-profile", profile, "--json", "-"}
	var stdout, stderr bytes.Buffer
	redistest.OK(t, run(t.Context(), args, &stdout, &stderr))
	var r bench.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || len(r.Workloads["memory-room"]) != 2 {
		t.Errorf("standard output is not the report: %v\n%s", err, &stdout)
	}
	if !strings.Contains(stderr.String(), "memory-room: the same") ||
		!strings.Contains(stderr.String(), "[4/4] memory-room: roomd") {
		t.Errorf("no table or no progress on standard error:\n%s", &stderr)
	}
	if file, err := os.Stat(profile); err != nil || file.Size() == 0 {
		t.Errorf("the profile: %v", err)
	}
}

func TestBench_Help(t *testing.T) {
	help := new(benchCmd).Help()
	for _, fact := range append(bench.Contenders(), bench.Workloads()...) {
		if !strings.Contains(help, fact.Name) || !strings.Contains(help, fact.Text) || fact.Text == "" {
			t.Errorf("%s is not in the help", fact.Name)
		}
	}
}

// A program is compared with itself.
func TestCompare_Programs(t *testing.T) {
	self, err := os.Executable()
	redistest.OK(t, err)
	t.Setenv(asProgram, "true")
	t.Setenv("ROOMLOAD_REDIS", "embedded")
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"compare", self, "--rounds", "2", "--workload", "lone,members-10",
		"--duration", "50ms"}, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	lines := strings.Split(stdout.String(), "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[1], "lone ") || !strings.HasPrefix(lines[2], "members-10 ") ||
		strings.Contains(lines[1], "NaN") {
		t.Errorf("it prints\n%s", &stdout)
	}
	if !strings.Contains(stderr.String(), "[3/8] members-10, before\n[4/8] members-10, after\n[5/8] lone, after\n[6/8] lone, before") {
		t.Errorf("not by turns:\n%s", &stderr)
	}
}

func TestCompare_NoSuchRevision(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"compare", "no-such-revision"}, &stdout, &stderr); err == nil ||
		!strings.Contains(err.Error(), "no-such-revision is no program") {
		t.Errorf("%v", err)
	}
}
