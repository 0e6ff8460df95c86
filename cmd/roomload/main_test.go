package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"roomd/loadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunReports(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"run", "--clients", "20", "--rooms", "2", "--duration", "500ms", "--json", "-", "--html", page}, &stdout, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	var r loadtest.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || r.Verdict != "consistent" || r.Actions == 0 {
		t.Errorf("standard output is not the report: %v\n%s", err, &stdout)
	}
	if !strings.Contains(stderr.String(), "verdict") {
		t.Errorf("no table on standard error:\n%s", &stderr)
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte("<svg")) {
		t.Errorf("the page: %v", err)
	}
}

func TestTableGoesToStandardOutput(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"run", "--clients", "5", "--rooms", "1", "--duration", "200ms"}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), "verdict     consistent") {
		t.Errorf("standard output is\n%s", &stdout)
	}
}

func TestWhatFails(t *testing.T) {
	for want, args := range map[string][]string{
		"clients":   {"run", "--clients", "0"},
		"duration":  {"run", "--duration", "0s"},
		"target":    {"run", "--target", "nonsense"},
		"connect":   {"run", "--target", "ws://127.0.0.1:1/ws"},
		"json":      {"run", "--clients", "1", "--rooms", "1", "--duration", "50ms", "--json", "/nonexistent/x.json"},
		"--nothing": {"run", "--nothing"},
		"expected":  {},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), args, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error about %s", args, err, want)
		}
		code := 1
		if want == "--nothing" || want == "expected" {
			code = 2
		}
		if got := exitCode(err); got != code {
			t.Errorf("%v: exit code %d, want %d", args, got, code)
		}
	}
}
