package size

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// small is a load on machines of four cores.
func small() Load {
	return Load{Players: 100_000, PerRoom: 4, Actions: 0.2, Profile: Cluster, Cores: 4, Memory: 8 << 30, RedisMemory: 8 << 30, MaxConnections: 50_000, Utilization: 0.5}
}

// round are costs with which one can compute in one's head.
func round() *Costs {
	c := &Costs{Values: make(map[string]float64)}
	for _, t := range Table {
		c.Values[t.Name] = 0
	}
	for name, value := range map[string]float64{
		BusyRate: 1, NodeAction: 100, NodeCommit: 20, NodeEvent: 10, NodeConnection: 5,
		NodeMemory: 50 << 20, NodeMemoryConnection: 10_000, NodeMemoryMember: 1000, NodeMemoryRoom: 2000, KernelConnection: 4000, NodeGarbage: 1.5,
		RedisCommit: 20, RedisContended: 60, RedisSubscriber: 2, RedisJournal: 8, RedisFeed: 10, RedisReplica: 5, RedisCluster: 3, RedisNode: 500, RedisIdle: 1000,
		RedisMemory: 1 << 20, RedisMemoryRoom: 1000, RedisMemoryMember: 200, RedisMemorySubscriber: 100, RedisMemoryEntry: 230, RedisMemoryFeed: 350,
		BytesAction: 80, BytesReply: 60, BytesEvent: 120, BytesPing: 1, BytesCommit: 600, BytesAnswer: 40, BytesMessage: 300,
	} {
		c.Values[name] = value
	}
	return c
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Abs(want)+1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// One node has all of every room, so all is a product.
func TestPlan_OneNode(t *testing.T) {
	l := small()
	l.Players, l.Profile, l.Watchers, l.Journal, l.Feed, l.Replicas = 1000, Standalone, 1, 10, 100, 2
	p, err := l.Plan(round())
	redistest.OK(t, err)
	near(t, "rooms", p.Rooms, 250)
	near(t, "connections", p.Connections, 1250)
	near(t, "actions", p.Actions, 200)
	near(t, "events", p.Events, 200*4.8) // three others, a watcher, and who acts, unless that was a leave or a join
	near(t, "nodes", p.Nodes.Count, 1)
	near(t, "nodes of a room", p.Nodes.Holding, 1)
	near(t, "cores", p.Nodes.CPU, (200*(100+20)+800*10+1250*5)/1e6)
	near(t, "memory of a node", p.Nodes.Memory, 50<<20+1.5*(1250*10_000+1000*1000+250*2000))
	near(t, "of its kernel", p.Nodes.Kernel, 1250*4000)
	near(t, "open files", p.Nodes.Files, 1250+156+1024)
	near(t, "an action of Redis", p.Redis.PerCommit, 20+8+10+2*5)
	near(t, "cores of Redis", p.Redis.CPU, (200*48+500+1000)/1e6)
	near(t, "memory of Redis", p.Redis.Memory, 1<<20+250*(1000+100+10*230)+1000*200+100*350)
	near(t, "to clients", p.ToClients, 200*60+800*120+1250)
	near(t, "from clients", p.FromClients, 200*80+1250)
	near(t, "to Redis", p.ToRedis, 200*600)
	near(t, "from Redis", p.FromRedis, 200*340)
}

// Members of a room are spread over nodes, each of which hears of its commits and has a copy.
func TestPlan_Spread(t *testing.T) {
	l := small()
	p, err := l.At(round(), 4, 2)
	redistest.OK(t, err)
	held := 4 * (1 - math.Pow(0.75, 4))
	near(t, "nodes of a room", p.Nodes.Holding, held)
	near(t, "cores", p.Nodes.CPU, (20_000*(100+20*held)+60_000*10+100_000*5)/1e6)
	near(t, "memory of a node", p.Nodes.Memory, 50<<20+1.5*(100_000*(10_000+1000)+25_000*held*2000)/4)
	contended := 0.8 * 0.75 * window
	near(t, "contended", p.Redis.Contended, contended)
	near(t, "an action of Redis", p.Redis.PerCommit, 20*(1-contended)+60*contended+(held-1)*2+3)
	near(t, "cores of Redis", p.Redis.CPU, (20_000*p.Redis.PerCommit+4*500+2*1000)/1e6)
	near(t, "memory of Redis", p.Redis.Memory, 2<<20+25_000*(1000+held*100)+100_000*200)
	near(t, "from Redis", p.FromRedis, 20_000*(40+held*300))
}

// Where there is little to do a single action costs more, and that ends at both ends.
func TestPlan_Lonely(t *testing.T) {
	c := round()
	c.Values[BusyRate], c.Values[NodeFalls], c.Values[RedisFalls] = 2000, 0.5, 0.25
	for actions, times := range map[float64][2]float64{100_000: {1, 1}, 2000: {1, 1}, 500: {2, math.Sqrt2}, 50: {math.Sqrt(40), math.Pow(40, 0.25)}, 1: {math.Sqrt(40), math.Pow(40, 0.25)}} {
		l := small()
		l.Players, l.PerRoom, l.Actions, l.Profile = 1000, 1, actions/1000, Standalone
		p, err := l.At(c, 1, 1)
		redistest.OK(t, err)
		near(t, "cores", p.Nodes.CPU, (actions*120*times[0]+1000*5)/1e6)
		near(t, "cores of Redis", p.Redis.CPU, (actions*20*times[1]+500+1000)/1e6)
	}
	l := small()
	l.Actions, l.Cores = 0.01, 1 // 1,000 actions/s on several nodes, each of which has few
	p, err := l.Plan(c)
	redistest.OK(t, err)
	if p.Nodes.CPU > p.Nodes.Count*0.5 {
		t.Errorf("too much for the nodes: %+v", p.Nodes)
	}
}

// Each resource decides where it is short.
func TestPlan_WhatDecides(t *testing.T) {
	for want, change := range map[string]func(*Load){
		byProcessor:   func(*Load) {},
		byMemory:      func(l *Load) { l.Memory, l.RedisMemory, l.Actions = 1<<29, 1<<28, 0.001 },
		byConnections: func(l *Load) { l.MaxConnections, l.Actions = 1000, 0.001 },
	} {
		l := small()
		change(&l)
		p, err := l.Plan(round())
		redistest.OK(t, err)
		if p.Nodes.DecidedBy != want {
			t.Errorf("%s decides, want %s: %+v", p.Nodes.DecidedBy, want, p.Nodes)
		}
		n := p.Nodes
		if n.Count != max(n.ByProcessor, n.ByMemory, n.ByConnections) {
			t.Errorf("%v nodes: %+v", n.Count, n)
		}
		if n.CPU > n.Count*2 || n.Memory+n.Kernel > float64(l.Memory)/2+4000 || n.Connections > float64(l.MaxConnections) {
			t.Errorf("what %s decides is too much for a node: %+v", want, n)
		}
		if r := p.Redis; r.CPU > r.Masters/2 || r.Memory > r.Masters*float64(l.RedisMemory)/2 {
			t.Errorf("%+v", r)
		}
	}
	l := small()
	l.RedisMemory, l.Actions = 1<<28, 0.001
	l.Players = 10_000_000
	if p, err := l.Plan(round()); err != nil || p.Redis.DecidedBy != byMemory || p.Redis.Masters < 20 {
		t.Errorf("%+v, %v", p, err)
	}
}

// Nobody, nobody who acts, one room of all: figures, and no NaN.
func TestPlan_Edges(t *testing.T) {
	for name, change := range map[string]func(*Load){
		"nobody":      func(l *Load) { l.Players = 0 },
		"one":         func(l *Load) { l.Players = 1 },
		"nobody acts": func(l *Load) { l.Actions = 0 },
		"the most": func(l *Load) {
			l.Players, l.PerRoom, l.Actions, l.Watchers, l.Journal, l.Feed = maxPlayers, 65_536, maxRate, maxWatchers, maxJournal, maxFeed
		},
		"small machines": func(l *Load) {
			l.Players, l.Cores, l.Memory, l.MaxConnections, l.Utilization = maxPlayers, 1, minMemory, 1, 1
		},
	} {
		l := small()
		change(&l)
		p, err := l.Plan(round())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		encoded, err := json.Marshal(p) // fails with NaN and infinity
		if err != nil || p.Nodes.Count < 1 || p.Redis.Masters < 1 || bytes.Contains(encoded, []byte(":-")) {
			t.Errorf("%s: %v\n%s", name, err, encoded)
		}
		var text strings.Builder
		redistest.OK(t, l.WriteText(&text, p))
		if strings.Contains(text.String(), "NaN") || strings.Contains(text.String(), "Inf") || strings.Contains(text.String(), "%!") {
			t.Errorf("%s:\n%s", name, &text)
		}
	}
	l := small()
	l.Players, l.PerRoom = 3, 4
	if p, err := l.Plan(round()); err != nil || p.Rooms != 1 || math.Abs(p.Events-p.Actions*2.8) > 1e-9 {
		t.Errorf("three at a table of four: %+v, %v", p, err)
	}
}

func TestPlan_Warnings(t *testing.T) {
	for want, change := range map[string]func(*Load){
		"":                   func(*Load) {},
		"--profile cluster":  func(l *Load) { l.Players, l.Profile = 1_000_000, Standalone },
		"through one lock":   func(l *Load) { l.PerRoom, l.Actions = 20_000, 1 },
		"the feed is on one": func(l *Load) { l.Players, l.Journal, l.Feed = 1_000_000, 10, 10 },
	} {
		l := small()
		change(&l)
		p, err := l.Plan(round())
		redistest.OK(t, err)
		if got := strings.Join(p.Warnings, "\n"); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("it warns %q, want %q", got, want)
		}
	}
}

// What cannot be is refused, by the name of its flag.
func TestLoad_Validate(t *testing.T) {
	for want, change := range map[string]func(*Load){
		"players is -1":               func(l *Load) { l.Players = -1 },
		"players is 9223372036854775": func(l *Load) { l.Players = math.MaxInt64 },
		"per-room is 0":               func(l *Load) { l.PerRoom = 0 },
		"per-room is 65537":           func(l *Load) { l.PerRoom = 65_537 },
		"watchers is -1":              func(l *Load) { l.Watchers = -1 },
		"actions is -1":               func(l *Load) { l.Actions = -1 },
		"actions is NaN":              func(l *Load) { l.Actions = math.NaN() },
		"actions is +Inf":             func(l *Load) { l.Actions = math.Inf(1) },
		"journal is -1":               func(l *Load) { l.Journal = -1 },
		"feed is 5, which needs":      func(l *Load) { l.Feed = 5 },
		"replicas is 6":               func(l *Load) { l.Replicas = 6 },
		`profile is "sentinel"`:       func(l *Load) { l.Profile = "sentinel" },
		"cores is 0":                  func(l *Load) { l.Cores = 0 },
		"memory is 1,":                func(l *Load) { l.Memory = 1 },
		"redis-memory is 1,":          func(l *Load) { l.RedisMemory = 1 },
		"max-connections is 0":        func(l *Load) { l.MaxConnections = 0 },
		"utilization is 0":            func(l *Load) { l.Utilization = 0 },
		"utilization is 1.1":          func(l *Load) { l.Utilization = 1.1 },
		"utilization is NaN":          func(l *Load) { l.Utilization = math.NaN() },
		"memory is 268435456, of wh":  func(l *Load) { l.Memory, l.Utilization = minMemory, 0.1 },
		"redis-memory is 268435456":   func(l *Load) { l.RedisMemory, l.Memory, l.Cores, l.Utilization = minMemory, maxMemory, maxCores, 0.005 },
	} {
		l := small()
		change(&l)
		if _, err := l.Plan(round()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]float64{"0.2/s": 0.2, "12/min": 0.2, "720/h": 0.2, "0/s": 0, ".5/s": 0.5, "1000/s": 1000} {
		var r Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || math.Abs(float64(r)-want) > 1e-12 {
			t.Errorf("%s: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "0.2", "/s", "-1/s", "1/d", "1/sec", "x/s", "NaN/s", "Inf/s", "1e99/s", "0x1p4/s", "1_0/s", "1 /s", "+1/s", "12/minute"} {
		var r Rate
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, r)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"512MiB": 1 << 29, "8GiB": 8 << 30, "1TiB": 1 << 40, "0KiB": 0} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%s: %v, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "8", "8GB", "8G", "-8GiB", "1.5GiB", "GiB", "99999999TiB", "8 GiB"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, b)
		}
	}
}

// The costs that the documents compute with are whole, and stay the same when they are written and read.
func TestCosts(t *testing.T) {
	c := Measured()
	var text bytes.Buffer
	redistest.OK(t, c.Write(&text))
	if !bytes.Equal(text.Bytes(), measured) {
		t.Errorf("measured.json is not as --calibrate writes it:\n%s", &text)
	}
	if c.Machine == "" || c.Measured == "" {
		t.Error("nothing says where and when they were measured")
	}
	for change, want := range map[[2]string]string{
		{`"redis-cpu-commit"`, `"redis-cpu-comit"`}:       "redis-cpu-commit is missing",
		{`"costs": {`, `"costs": {"more": 1,`}:            `"more" is no cost`,
		{`"machine"`, `"machines"`}:                       "unknown field",
		{`"node-cpu-idle": `, `"node-cpu-idle": -`}:       "node-cpu-idle is -",
		{`"node-cpu-idle": `, `"node-cpu-idle": "x" + "`}: "invalid",
	} {
		if _, err := Read(strings.NewReader(strings.Replace(text.String(), change[0], change[1], 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", change, err, want)
		}
	}
}
