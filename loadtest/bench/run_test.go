package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
)

// small is a workload with a bit of everything.
var small = workload{name: "small", clients: 12, rooms: 3, nodes: 2, members: 5}

func TestContenders_KeepTheirLists(t *testing.T) {
	redistest.Thorough(t)
	for kind, url := range servers {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t, url(t))
			for _, c := range (Config{}).plan().of(small) {
				r := mustCell(t, b, small, c)
				if wrong := r.wrong(); len(wrong) > 0 {
					t.Errorf("%s: %v", c.name, wrong)
				}
				if r.Commands <= 0 || r.Jain <= 0 || r.Allocs <= 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P50 {
					t.Errorf("%s: not plausible: %+v", c.name, *r)
				}
				if r.RedisCPU.IsKnown() == (kind == "embedded") {
					t.Errorf("%s: processor time is %v", c.name, float64(r.RedisCPU))
				}
			}
			if n := b.rdb.DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("%d keys are left", n)
			}
		})
	}
}

// The check must find a contender that writes without a lock.
func TestCell_BrokenContender(t *testing.T) {
	b := newBench(t, redisurl.Embedded)
	w := workload{name: "broken", clients: 32, rooms: 1, nodes: 2}
	r := mustCell(t, b, w, contender{name: "unlocked", open: openUnlocked, members: articleMembers})
	if r.Violations.Lost == 0 || len(r.Details) == 0 || len(r.wrong()) == 0 {
		t.Errorf("without a lock: %+v", *r)
	}
}

func TestCell_Errors(t *testing.T) {
	b := newBench(t, redisurl.Embedded)
	w := workload{name: "moody", clients: 4, rooms: 1, nodes: 1}
	r := mustCell(t, b, w, contender{name: "moody", open: openMoody, members: saddMembers})
	if r.Errors == 0 || r.FirstError != errRefused.Error() || r.Violations.total() > 0 || len(r.wrong()) == 0 {
		t.Errorf("%+v", *r)
	}
}

func TestCell_CannotBeMeasured(t *testing.T) {
	b := newBench(t, redisurl.Embedded)
	shut := func(context.Context, target) (node, error) { return nil, errRefused }
	for _, c := range []contender{
		{name: "cannot open", open: shut, members: saddMembers},
		{name: "cannot fill", open: openSadd, filler: shut, members: saddMembers},
		{name: "cannot be read", open: openSadd, members: articleMembers},
	} {
		r, err := b.cell(t.Context(), small, c)
		if err != nil || r.Failure == "" || len(r.wrong()) != 1 {
			t.Errorf("%s: %+v, %v", c.name, r, err)
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
		Workloads: []string{"members-10", "four-nodes-16-rooms"}, Out: &out, Log: &log,
	})
	redistest.OK(t, err)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if len(report.Workloads) != 2 || len(report.Workloads["members-10"]) != 3 || report.WebSocket != nil {
		t.Errorf("%+v", *report)
	}
	r := report.Workloads["members-10"]["roomd"]
	if r.ToArticle == nil || !r.ToArticle.P99.IsKnown() || r.ToSadd == nil || !r.ToSadd.ActionsPerSec.IsKnown() {
		t.Errorf("ratios: %+v, %+v", r.ToArticle, r.ToSadd)
	}
	var tables bytes.Buffer
	if err := writeTables(report, &tables); err != nil || tables.String() != out.String() {
		t.Errorf("printed on the way:\n%s\nand at the end: %v\n%s", &out, err, &tables)
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
	b := newBench(t, redisurl.Embedded)
	b.plan = plan{contenders: contenders[:1], workloads: []workload{small}}
	if _, err := b.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for _, s := range specials {
		b.plan = plan{special: []special{s}}
		if _, err := b.run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

func TestConfig_Bad(t *testing.T) {
	for field, spoil := range map[string]func(*Config){
		"redis":    func(c *Config) { c.Redis = "nonsense" },
		"only":     func(c *Config) { c.Only = []string{"roomd", "nobody"} },
		"workload": func(c *Config) { c.Workloads = []string{"none"} },
		"duration": func(c *Config) { c.Duration = 0 },

		"connections": func(c *Config) { c.Connections = -1 },

		"heap-profile": func(c *Config) { c.HeapProfile = "/nonexistent/heap" },
		"cpu-profile":  func(c *Config) { c.CPUProfile = "/nonexistent/cpu" },
	} {
		c := Config{Redis: redisurl.Embedded, Duration: time.Second, Out: io.Discard, Log: io.Discard}
		spoil(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestPlan(t *testing.T) {
	all := Config{}.plan()
	if len(all.contenders) != len(contenders) || len(all.workloads) == 0 || len(all.special) != 3 || all.special[0].name != webSocketName || all.cells() < 55 {
		t.Errorf("%+v", all)
	}
	some := Config{Only: []string{"roomd", "sadd", "roomd"}, Workloads: []string{"websocket"}}.plan()
	if len(some.contenders) != 2 || some.contenders[0].name != "sadd" || len(some.workloads) != 0 || some.cells() != 1 {
		t.Errorf("%+v", some)
	}
	for _, name := range NamedWorkloads() {
		p := Config{Workloads: []string{name}}.plan()
		if p.cells() == 0 || slices.ContainsFunc(all.workloads, func(w workload) bool { return w.name == name }) || !slices.Contains(WorkloadNames(), name) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	locks := Config{Workloads: []string{"locks"}, Only: []string{"lockmgr", "redsync", "roomd"}}.plan()
	if len(locks.workloads) != 4 || locks.cells() != 8 {
		t.Errorf("%+v", locks)
	}
}
