package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report/reporttest"
	"roomd/lockmgr/redistest"
)

// made is a report of made-up figures.
func made() *Report {
	results := map[string]*Result{
		articleName: {ActionsPerSec: 1000, Latency: tally.Latency{P99: 50}, Commands: 5, Jain: 0.5, RedisCPU: unknown},
		saddName:    {ActionsPerSec: 20_000, Latency: tally.Latency{P99: 2}, Commands: 1, Jain: 1},
		roomdName:   {ActionsPerSec: 40_000, Latency: tally.Latency{P99: 1}, Commands: 1.5, Jain: 1},
	}
	relate(results)
	return &Report{Redis: "Redis & <co>", Workloads: map[string]map[string]*Result{
		"hot-room":    results,
		"websocket":   {echoName: {ActionsPerSec: 5000}, roomdName: {ActionsPerSec: 500, Events: 100}},
		"memory-room": {echoName: {Memory: &Memory{Connections: 10}}},
	}}
}

func TestReport_Ratios(t *testing.T) {
	r := made().Workloads["hot-room"][roomdName]
	if r.To[articleName] != (Ratio{40, 0.02}) || r.To[saddName] != (Ratio{2, 0.5}) {
		t.Errorf("%+v", r.To)
	}
	alone := map[string]*Result{roomdName: {ActionsPerSec: 1}, saddName: {}}
	relate(alone)
	if r := alone[roomdName]; r.to(articleName).P99.IsKnown() || r.to(saddName).ActionsPerSec.IsKnown() {
		t.Errorf("to nobody, and to nothing: %+v", r.To)
	}
}

// fields returns the names in the JSON object at a path.
func fields(t *testing.T, text []byte, path ...string) []string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("%v: %v in %s", path, err, text)
	}
	if len(path) > 0 {
		return fields(t, object[path[0]], path[1:]...)
	}
	var names []string
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// The JSON report is a contract.
func TestReport_Fields(t *testing.T) {
	text, err := json.Marshal(made())
	redistest.OK(t, err)
	figures := "actions_per_s allocs_per_action commands_per_action cut_off errors"
	more := " jain latency_ms own_cpu_us_per_action reads_per_action redis_cpu_us_per_action starved"
	for path, want := range map[string]string{
		"":                                    "cores duration_s go ping_us redis workloads",
		"workloads":                           "hot-room memory-room websocket",
		"workloads hot-room":                  "article roomd sadd",
		"workloads hot-room roomd":            figures + more + " to violations",
		"workloads hot-room roomd latency_ms": "max p50 p90 p99 p999",
		"workloads hot-room roomd to":         "article sadd",
		"workloads hot-room roomd to article": "actions_per_s p99",
		"workloads hot-room roomd violations": "duplicate lost phantom",
		"workloads websocket roomd":           figures + " events_per_s" + more + " violations",
		"workloads memory-room echo memory":   "before_mib connections freed_kib_per_connection goroutines_per_connection heap_kib_per_connection resident_kib_per_connection stack_kib_per_connection",
	} {
		if got := strings.Join(fields(t, text, strings.Fields(path)...), " "); got != want {
			t.Errorf("%q has %s\nwant %s", path, got, want)
		}
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || back.Workloads["hot-room"]["roomd"].To[articleName].ActionsPerSec != 40 ||
		back.Workloads["hot-room"][articleName].RedisCPU.IsKnown() {
		t.Errorf("%v: it is read as %+v", err, back)
	}
}

func TestReport_WhatIsWrong(t *testing.T) {
	if err := made().Err(); err != nil {
		t.Errorf("nothing is wrong: %v", err)
	}
	for want, spoil := range map[string]func(*Report){
		"hot-room, roomd: 1 lost, 0 phantom, 0 duplicate: 张三": func(r *Report) {
			bad := r.Workloads["hot-room"]["roomd"]
			bad.Violations, bad.Details = Violations{Lost: 1}, []string{"张三 is missing"}
		},
		"hot-room, sadd: 3 errors, the first: no": func(r *Report) {
			bad := r.Workloads["hot-room"][saddName]
			bad.Errors, bad.FirstError = 3, "no"
		},
		"hot-room, article: not one action": func(r *Report) { r.Workloads["hot-room"][articleName].ActionsPerSec = 0 },
		"websocket, roomd: no node":         func(r *Report) { r.Workloads["websocket"][roomdName].Failure = "no node" },
		"memory-room, echo: no server":      func(r *Report) { r.Workloads["memory-room"][echoName] = &Result{Failure: "no server"} },
	} {
		r := made()
		spoil(r)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
		var tables bytes.Buffer
		_, remark, _ := strings.Cut(want, ": ")
		for _, w := range workloads {
			redistest.OK(t, r.writeTable(&tables, w, make(map[string]bool)))
		}
		if !strings.Contains(tables.String(), remark) {
			t.Errorf("the tables do not say %q:\n%s", remark, &tables)
		}
	}
	if cut := (&Result{ActionsPerSec: 1, CutOff: 2}); len(cut.wrong()) != 0 || len(cut.remarks()) != 1 {
		t.Errorf("cut off: %v, %v", cut.wrong(), cut.remarks())
	}
}

func TestReport_Page(t *testing.T) {
	r := made()
	r.Workloads["hot-room"]["roomd"].Failure = "<b>张三</b>"
	var page bytes.Buffer
	redistest.OK(t, r.WriteHTML(&page))
	got := page.String()
	reporttest.SelfContained(t, got)
	if strings.Count(got, `<figure class="plot">`) != 3 || strings.Contains(got, "<b>张三") {
		t.Errorf("the page is\n%s", got)
	}
	for _, row := range []string{articleName, saddName, roomdName, echoName} {
		if !strings.Contains(got, `<th scope="row">`+row+"</th>") {
			t.Errorf("no row of %s", row)
		}
	}
	if !strings.Contains(got, "<li>roomd: &lt;b&gt;张三&lt;/b&gt;</li>") || !strings.Contains(got, "hot-room") {
		t.Errorf("no remark in\n%s", got)
	}
	if err := new(Report).WriteHTML(io.Discard); err != nil {
		t.Errorf("an empty report: %v", err)
	}
}
