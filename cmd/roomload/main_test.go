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
	"roomd/loadtest/bench"
	"roomd/loadtest/chaos"
	"roomd/lockmgr/redistest"
)

// asProgram is the variable that makes this test binary roomload itself.
const asProgram = "ROOMLOAD_TESTED_AS_PROGRAM"

func TestMain(m *testing.M) {
	bench.Main()
	chaos.Main()
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestRun_Reports(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "report.html")
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"run", "--clients", "20", "--rooms", "2", "--duration", "500ms", "--json", "-",
		"--html", page}, &stdout, &stderr)
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var r loadtest.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || r.Verdict != "consistent" || r.Actions == 0 {
		t.Errorf("standard output is not the report: %v\n%s", err, &stdout)
	}
	if !strings.Contains(stderr.String(), "verdict") {
		t.Errorf("no table on standard error:\n%s", &stderr)
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte(`class="chart"`)) {
		t.Errorf("the page: %v", err)
	}
}

func TestRun_Table(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	redistest.OK(t, run(t.Context(), []string{"run", "--clients", "5", "--rooms", "1", "--duration", "200ms"},
		&stdout, &stderr))
	if !strings.Contains(stdout.String(), "verdict     consistent") {
		t.Errorf("standard output is\n%s", &stdout)
	}
}

// A run that fails ends with 1.
func TestMain_WhatFails(t *testing.T) {
	quick := []string{"run", "--clients", "1", "--rooms", "1", "--duration", "50ms"}
	for want, args := range map[string][]string{
		"connect":      {"run", "--target", "ws://127.0.0.1:1/ws"},
		"json":         append(quick[:len(quick):len(quick)], "--json", "/nonexistent/x.json"),
		"html":         append(quick[:len(quick):len(quick)], "--html", "/nonexistent/x.html"),
		"heap-profile": {"bench", "--heap-profile", "/nonexistent/x"},
		"cpu-profile":  {"bench", "--redis", "embedded", "--cpu-profile", "/nonexistent/x"},
		"answer":       {"lab", "--redis", "redis://127.0.0.1:1"},
		"search":       {"audit", "--redis", "redis://127.0.0.1:1"},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), args, &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitFailed {
			t.Errorf("%v: %v, want an error about %s", args, err, want)
		}
	}
}

// Wrong use ends with 2, at once, and with one line that names the flag and its value.
func TestMain_WrongUse(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     "expected",
		"run --nothing":                        "--nothing",
		"run --clients 0":                      "--clients is 0",
		"run --clients x":                      "--clients",
		"run --rooms=-1":                       "--rooms is -1",
		"run --nodes 0":                        "--nodes is 0",
		"run --capacity=-1":                    "--capacity is -1",
		"run --duration 0s":                    "--duration is 0s",
		"run --duration=-1s":                   "--duration is -1s",
		"run --redis nonsense":                 `--redis: "nonsense"`,
		"run --mix dance":                      `--mix is "dance"`,
		"run --target nonsense":                `--target is "nonsense"`,
		"bench --duration 0s":                  "--duration is 0s",
		"bench --connections 0":                "--connections is 0",
		"bench --connections=-1":               "--connections is -1",
		"bench --only nobody":                  `--only is "nobody"`,
		"bench --workload none":                `--workload is "none"`,
		"bench --redis nonsense":               `--redis: "nonsense"`,
		"bench --redis redis+cluster://host:1": "--redis is a Redis Cluster",
		"lab --only nobody":                    `--only is "nobody"`,
		"lab --faults no-fault,nonsense":       `--faults is "nonsense"`,
		"lab --duration 0s":                    "--duration is 0s",
		"lab --duration=-1s":                   "--duration is -1s",
		"lab --second 0s":                      "--second is 0s",
		"lab --second 1m":                      "--second is 1m0s",
		"lab --redis nonsense":                 `--redis: "nonsense"`,
		"chaos --profile x":                    `--profile is "x"`,
		"chaos --persist x":                    `--persist is "x"`,
		"chaos --replicas 1":                   "--replicas is 1",
		"chaos --faults failover":              `--faults is "failover"`,
		"chaos --mix dance":                    `--mix is "dance"`,
		"chaos --duration 0s":                  "--duration is 0s",
		"audit":                                "--redis",
		"audit --redis nonsense":               `--redis: "nonsense"`,
		"audit --redis embedded":               "--redis is embedded",
		"audit --redis redis://h --most 0":     "--most is 0",
		"audit --redis redis://h --redis-ca /dev/null --redis-cert a": "--redis-cert and --redis-key must be used together",
		"audit --redis redis://h --most=-1":                           "--most is -1",
		"audit --redis redis://h --room=":                             "--room is empty",
		"audit --redis redis://h --room {a}":                          `--room is "{a}"`,
		"conform":                                                     "--client",
		"conform --client=":                                           "--client is empty",
		"conform --client a --run zzz":                                `--run: "zzz" is in no scenario's name`,
		"conform --client a --run (":                                  "--run: ",
		"audit --redis redis://h more":                                "more",
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), strings.Fields(args), &stdout, &stderr)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") ||
			exitCode(err) != exitWrongUse {
			t.Errorf("%s: %v (exit code %d), want it to say %s", args, err, exitCode(err), want)
		}
	}
}

// --nodes does not matter where nodes run already.
func TestRun_TargetsNeedNoNodes(t *testing.T) {
	c := runCmd{Config: loadtest.Config{Targets: []string{"ws://127.0.0.1:1/ws"}, Redis: "nonsense", Clients: 1,
		Rooms: 1, Duration: 1}}
	if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "--redis") {
		t.Errorf("%v, want an error about --redis", err)
	}
	c.Redis = "embedded"
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
