package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roomd/loadtest/lab"
	"roomd/lockmgr/redistest"
)

func TestLab_Reports(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "lab.html")
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"lab", "--redis", "embedded", "--only", "set-nx-lua,roomd", "--faults",
		"pause-write",
		"--json", "-", "--html", page}, &stdout, &stderr)
	redistest.OK(t, err)
	var r lab.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || !r.AsListed() || len(r.Disciplines) != 2 {
		t.Errorf("standard output is not the report: %v\n%s", err, &stdout)
	}
	for _, want := range []string{"pause-write    L2", "verdict  as listed"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q on standard error:\n%s", want, &stderr)
		}
	}
	if html, err := os.ReadFile(page); err != nil ||
		!bytes.Contains(html, []byte(`<h3 id="set-nx-lua-under-pause-write">`)) {
		t.Errorf("the page: %v", err)
	}
}

// Without a terminal each cell is a line.
func TestLab_Progress(t *testing.T) {
	var out bytes.Buffer
	show, done := newLabProgress(&out)
	show(&lab.Report{}, &lab.Cell{Discipline: "setnx", Fault: "no-fault", Applies: true, Done: true})
	done()
	redistest.Equal(t, "progress is", out.String(), "setnx                 no-fault       ·\n")
}
