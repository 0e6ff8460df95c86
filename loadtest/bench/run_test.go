package bench

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

// small is a workload with a bit of everything.
var small = workload{name: "small", clients: 12, rooms: 1, nodes: 2, members: 5}

// All contenders keep their lists, on the embedded Redis and over the network, for which they wait, and their locks.
func TestContenders(t *testing.T) {
	server := redistest.Start(t).URL()
	slow := small
	slow.delay = 5 * time.Millisecond
	for _, test := range []struct {
		url  string
		load workload
	}{
		{redisurl.Embedded, small}, {server, slow}, {server, workload{name: "locks", kind: ofLocks, clients: 8, rooms: 2, nodes: 2}},
	} {
		b := testBench(t, test.url)
		for _, c := range of(test.load) {
			t.Run(test.load.name+", "+c.name, func(t *testing.T) {
				if c.name == "rueidislock" { // which forgets to wake a waiter at times
					redistest.Thorough(t)
				}
				r := mustCell(t, b, test.load, c)
				if wrong := r.wrong(); len(wrong) > 0 {
					t.Errorf("%s: %v", c.name, wrong)
				}
				if r.Commands <= 0 || r.Jain <= 0 || r.Allocs <= 0 || r.Latency.P50 < 2*report.Figure(test.load.delay.Milliseconds()) || r.RedisCPU.IsKnown() != (test.url == server) {
					t.Errorf("not plausible: %+v", *r)
				}
			})
		}
		b.emptied(t)
	}
}

// What a contender does wrong is found, and one that cannot be measured says why.
func TestCell_Broken(t *testing.T) {
	b := testBench(t, redisurl.Embedded)
	shut := func(context.Context, target) (node, error) { return node{}, errRefused }
	for _, c := range []contender{
		{name: "did not join, joined", open: openInverse, filler: openSadd, members: saddMembers},
		{name: "errors, the first: refused", open: openMoody, filler: openSadd, members: saddMembers},
		{name: "open: refused", open: shut, members: saddMembers},
		{name: "open: refused", open: openSadd, filler: shut, members: saddMembers},
		{name: "read the lists", open: openSadd, members: articleMembers},
	} {
		r, err := b.cell(t.Context(), 0, cell{load: small, who: c})
		redistest.OK(t, err)
		wrong := strings.Join(r.wrong(), "; ")
		if !slices.ContainsFunc(strings.Split(c.name, ", "), func(want string) bool { return strings.Contains(wrong, want) }) || r.FirstError != "" && r.Violations.total() > 0 {
			t.Errorf("%s: %q", c.name, wrong)
		}
	}
}

func TestRun(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	redistest.OK(t, rdb.Set(t.Context(), "somebody's", "value", 0).Err())
	var out, log bytes.Buffer
	report, err := Run(t.Context(), Config{
		Redis: server.URL(), Duration: short, Only: []string{"roomd", "article", "sadd"},
		Workloads: []string{"members-10", "four-nodes-16-rooms"}, Connections: 1, Out: &out, Log: &log,
	})
	redistest.OK(t, err)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if len(report.Workloads) != 2 || len(report.Workloads["members-10"]) != 3 {
		t.Errorf("%+v", *report)
	}
	if r := report.Workloads["members-10"]["roomd"]; len(r.To) != 2 {
		t.Errorf("ratios: %+v", r.To)
	}
	for _, want := range []string{"\nmembers-10: 64 clients", "\nfour-nodes-16-rooms: ", "×sadd"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	for _, c := range small.columns() {
		if strings.Count(out.String(), c.about) != 1 {
			t.Errorf("%s is not explained, or twice:\n%s", c.head, &out)
		}
	}
	if n := strings.Count(log.String(), "actions/s"); n != 6 {
		t.Errorf("%d lines of progress:\n%s", n, &log)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("%d keys are there, want only somebody else's", n)
	}
}

func TestRun_Stopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := testBench(t, redisurl.Embedded)
	for _, c := range (Config{Workloads: []string{"lone", "websocket", locksName, networkName, memoryName}}).cells(100) {
		if _, err := b.run(ctx, []cell{c}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, %s: %v", c.load.name, c.who.name, err)
		}
	}
}

func TestCells(t *testing.T) {
	names := func(c Config) string {
		var list []string
		for _, cell := range c.cells(100) {
			list = append(list, cell.load.name+":"+cell.who.name)
		}
		return strings.Join(list, " ")
	}
	all := names(Config{})
	for _, w := range workloads {
		one := names(Config{Workloads: []string{w.name}})
		if one == "" || strings.Contains(all, one) != (w.group == "") {
			t.Errorf("%s: %q", w.name, one)
		}
	}
	for want, c := range map[string]Config{
		"lone:sadd lone:roomd websocket:roomd":                                  {Only: []string{"roomd", "sadd", "roomd"}, Workloads: []string{"websocket", "lone"}},
		"memory-idle:echo memory-idle:roomd memory-room:echo memory-room:roomd": {Workloads: []string{"memory"}},
	} {
		if got := names(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if c := (Config{Workloads: []string{"memory-room"}}).cells(100)[0].load; c.clients != 100 || len(c.names("x")) != 10 {
		t.Errorf("%+v", c)
	}
}
