package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	for kind, url := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := testBench(t, url(t))
			for _, c := range of(small) {
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
			b.emptied(t)
		})
	}
}

// The check must find a contender that writes without a lock.
func TestCell_BrokenContender(t *testing.T) {
	b := testBench(t, redisurl.Embedded)
	w := workload{name: "broken", clients: 32, rooms: 1, nodes: 2}
	r := mustCell(t, b, w, contender{name: "unlocked", open: openUnlocked, members: articleMembers})
	if r.Violations.total() == 0 || len(r.Details) == 0 || len(r.wrong()) == 0 {
		t.Errorf("without a lock: %+v", *r)
	}
}

func TestCell_Errors(t *testing.T) {
	b := testBench(t, redisurl.Embedded)
	w := workload{name: "moody", clients: 4, rooms: 1, nodes: 1}
	r := mustCell(t, b, w, contender{name: "moody", open: openMoody, members: saddMembers})
	if r.Errors == 0 || r.FirstError != errRefused.Error() || r.Violations.total() > 0 || len(r.wrong()) == 0 {
		t.Errorf("%+v", *r)
	}
}

func TestCell_CannotBeMeasured(t *testing.T) {
	b := testBench(t, redisurl.Embedded)
	shut := func(context.Context, target) (node, error) { return nil, errRefused }
	for _, c := range []contender{
		{name: "cannot open", open: shut, members: saddMembers},
		{name: "cannot fill", open: openSadd, filler: shut, members: saddMembers},
		{name: "cannot be read", open: openSadd, members: articleMembers},
	} {
		r, err := b.cell(t.Context(), 0, cell{load: small, who: c})
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
	if len(report.Workloads) != 2 || len(report.Workloads["members-10"]) != 3 {
		t.Errorf("%+v", *report)
	}
	r := report.Workloads["members-10"]["roomd"]
	if len(r.To) != 2 || !r.To[articleName].P99.IsKnown() || !r.To[saddName].ActionsPerSec.IsKnown() {
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
		"lone:sadd lone:roomd websocket:roomd": {Only: []string{"roomd", "sadd", "roomd"}, Workloads: []string{"websocket", "lone"}},
		"locks-lone:lockmgr locks-lone:redsync locks-one-node:lockmgr locks-one-node:redsync locks-four-nodes:lockmgr locks-four-nodes:redsync locks-1000:lockmgr locks-1000:redsync": {Only: []string{"lockmgr", "redsync", "roomd"}, Workloads: []string{"locks"}},
		"memory-idle:echo memory-idle:roomd memory-room:echo memory-room:roomd":                                                                                                       {Workloads: []string{"memory"}},
	} {
		if got := names(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if c := (Config{Workloads: []string{"memory-room"}}).cells(100)[0].load; c.clients != 100 || len(c.names("x")) != 10 {
		t.Errorf("%+v", c)
	}
}

// All contenders for rooms work over the network, and wait for it.
func TestNetwork(t *testing.T) {
	b := testBench(t, redistest.Start(t).URL())
	slow := workload{name: "slow", clients: 6, rooms: 3, nodes: 2, delay: 5 * time.Millisecond}
	for _, c := range of(slow) {
		r := mustCell(t, b, slow, c)
		if wrong := r.wrong(); len(wrong) > 0 || r.Latency.P50 < 10 {
			t.Errorf("%s: %v, p50 %v ms", c.name, wrong, r.Latency.P50)
		}
	}
}
