package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// A program is compared with itself.
func TestCompare_Programs(t *testing.T) {
	self, err := os.Executable()
	redistest.OK(t, err)
	t.Setenv(asProgram, "true")
	t.Setenv("ROOMLOAD_REDIS", "embedded")
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"compare", self, "--rounds", "2", "--workload", "lone,members-10", "--duration", "50ms"}, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	lines := strings.Split(stdout.String(), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "lone ") || !strings.HasPrefix(lines[2], "members-10 ") || strings.Contains(lines[1], "NaN") {
		t.Errorf("it prints\n%s", &stdout)
	}
	if !strings.Contains(stderr.String(), "[1/4] before\n[2/4] after\n[3/4] after\n[4/4] before") {
		t.Errorf("not by turns:\n%s", &stderr)
	}
}

func TestCompare_NoSuchRevision(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"compare", "no-such-revision"}, &stdout, &stderr); err == nil || !strings.Contains(err.Error(), "no-such-revision is no program") {
		t.Errorf("%v", err)
	}
}
