package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
	"roomd/loadtest/report/reporttest"
	"roomd/lockmgr/redistest"
)

// made is a report of made-up figures.
func made() *Report {
	results := map[string]*Result{
		articleName: {ActionsPerSec: 1000, Latency: tally.Latency{P99: 50}, Commands: 5, Jain: 0.5, RedisCPU: report.Figure(math.NaN())},
		saddName:    {ActionsPerSec: 20_000, Latency: tally.Latency{P99: 2}, Commands: 1, Jain: 1},
		"roomd":     {ActionsPerSec: 40_000, Latency: tally.Latency{P99: 1}, Commands: 1.5, Jain: 1},
	}
	relate(results)
	return &Report{
		Redis: "Redis & <co>", Workloads: map[string]map[string]*Result{"hot-room": results},
		WebSocket: &WebSocket{load: webSocketLoad, Result: Result{ActionsPerSec: 500}, EchoPerSec: 5000, Ratio: 0.1},
		TwoNodes:  &WebSocket{load: twoNodesLoad, Result: Result{ActionsPerSec: 300}, EchoPerSec: 5000, Ratio: 0.06},
		Paced:     &WebSocket{load: pacedLoad, Result: Result{ActionsPerSec: 2}, EchoPerSec: 2, Ratio: 1},
		Memory:    &Memory{Servers: map[string]*MemoryResult{"gorilla": {}}},
	}
}

func TestReport_Ratios(t *testing.T) {
	r := made().Workloads["hot-room"]["roomd"]
	if *r.ToArticle != (Ratio{40, 0.02}) || *r.ToSadd != (Ratio{2, 0.5}) {
		t.Errorf("to the article %+v, to sadd %+v", *r.ToArticle, *r.ToSadd)
	}
	alone := map[string]*Result{"roomd": {ActionsPerSec: 1}, saddName: {}}
	relate(alone)
	if r := alone["roomd"]; r.ToArticle != nil || r.ToSadd.ActionsPerSec.IsKnown() {
		t.Errorf("to nobody %+v, to nothing %+v", r.ToArticle, r.ToSadd)
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
	figures := "actions_per_s allocs_per_action commands_per_action cut_off errors jain latency_ms own_cpu_us_per_action reads_per_action redis_cpu_us_per_action starved"
	for path, want := range map[string]string{
		"":                                    "cores duration_s go memory redis websocket websocket_paced websocket_two_nodes workloads",
		"workloads":                           "hot-room",
		"workloads hot-room":                  "article roomd sadd",
		"workloads hot-room roomd":            figures + " to_article to_sadd violations",
		"workloads hot-room roomd latency_ms": "max p50 p90 p99 p999",
		"workloads hot-room roomd to_article": "actions_per_s p99",
		"workloads hot-room roomd violations": "duplicate lost phantom",
		"memory":                              "connections servers",
		"memory servers gorilla":              "before_mib connections freed_kib_per_connection goroutines_per_connection heap_kib_per_connection resident_kib_per_connection stack_kib_per_connection",
		"websocket": "acting actions_per_s allocs_per_action commands_per_action connections cut_off echo_allocs_per_action echo_cpu_us_per_action " +
			"echo_latency_ms echo_per_s errors events events_per_s jain latency_ms own_cpu_us_per_action ratio reads_per_action redis_cpu_us_per_action rooms starved violations",
	} {
		if got := strings.Join(fields(t, text, strings.Fields(path)...), " "); got != want {
			t.Errorf("%q has %s\nwant %s", path, got, want)
		}
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || back.Workloads["hot-room"]["roomd"].ToArticle.ActionsPerSec != 40 ||
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
		"websocket: no node":                func(r *Report) { r.WebSocket.Failure = "no node" },
		"websocket-two-nodes: no node":      func(r *Report) { r.TwoNodes.Failure = "no node" },
	} {
		r := made()
		spoil(r)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
		var tables bytes.Buffer
		_, remark, _ := strings.Cut(want, ": ")
		if err := writeTables(r, &tables); err != nil || !strings.Contains(tables.String(), remark) {
			t.Errorf("%v: the tables do not say %q:\n%s", err, remark, &tables)
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
	if strings.Count(got, `<figure class="plot">`) != 2 || strings.Contains(got, "<b>张三") {
		t.Errorf("the page is\n%s", got)
	}
	for _, row := range []string{articleName, saddName, "roomd", "echo", "gorilla"} {
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

// The page says what each contender does.
func TestContenders_AreExplained(t *testing.T) {
	for _, c := range contenders {
		if c.about == "" {
			t.Error(c.name)
		}
	}
}

// writeTables writes what Run prints on the way.
func writeTables(r *Report, out io.Writer) error {
	if _, err := io.WriteString(out, r.setup()+"\n"); err != nil {
		return err
	}
	for _, w := range workloads {
		if results := r.Workloads[w.name]; results != nil {
			if err := tableOf(w, results).writeText(out); err != nil {
				return err
			}
		}
	}
	for _, part := range r.parts() {
		if err := part.figures().writeText(out); err != nil {
			return err
		}
	}
	return nil
}
