package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/pause"
)

const (
	resourcesEvery = 2 * time.Second

	// judgedFrom is how long a run has to be for its figures to say anything, and longRun from when on the first node is not killed, so that
	// one process is there from the beginning to the end.
	judgedFrom = 2 * time.Minute
	longRun    = 10 * time.Minute

	// mayRise is the share by which the median of the last quarter may be above that of the second one, besides a slack.
	mayRise = 0.25
)

// use is what nodes and Redis have in use at a moment.
type use struct {
	at     time.Duration
	end    bool               // everybody has left
	values map[string]float64 // by the name of the figure
}

// The figures: of each node, by its number, and of Redis.
const (
	resident   = "memory, MiB"
	goroutines = "goroutines"
	openFiles  = "open files"

	redisMemory = "redis, MiB"
	redisKeys   = "redis, keys"
	perCommit   = "redis, bytes for each commit"
	perRoom     = "redis, keys for each room"
	otherKeys   = "redis, keys of no room"
)

// figure is one of them in time.
type figure struct {
	name   string
	slack  float64 // by which it may rise besides mayRise
	judged bool
	drops  bool // in the end it is not above what it was in the run
}

// nodeFigures are those of a node. Faults fill the node's pool of 64 connections to Redis, which empties slowly: by so many open files may differ.
var nodeFigures = []figure{{resident, 16, true, false}, {goroutines, 50, true, true}, {openFiles, 80, true, true}}

var redisFigures = []figure{{redisMemory, 0, false, false}, {redisKeys, 0, false, false}, {perCommit, 200, true, false}, {perRoom, 1, true, true}, {otherKeys, 20, true, true}}

func nameOf(node int, figure string) string { return fmt.Sprintf("node %d, %s", node, figure) }

// resources samples what is in use until ctx ends.
func (r *run) resources(ctx context.Context) {
	for pause.For(ctx, resourcesEvery) == nil {
		r.takeUse(ctx, false)
	}
}

func (r *run) takeUse(ctx context.Context, end bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(r.nodes)+2)*lookTimeout)
	defer cancel()
	u := use{at: r.History.Now(), end: end, values: make(map[string]float64)}
	for _, n := range r.nodes {
		n.uses(ctx, u.values) // without one that is dead or stopped
	}
	r.redisUses(ctx, u.values)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = append(r.used, u)
}

// uses adds the figures of a node, as its metrics have them.
func (n *node) uses(ctx context.Context, values map[string]float64) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/metrics", nil)
	if err != nil {
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		var value float64
		if _, err := fmt.Sscan(text, &value); err != nil {
			continue
		}
		switch name {
		case "process_resident_memory_bytes":
			values[nameOf(n.number, resident)] = value / (1 << 20)
		case "go_goroutines":
			values[nameOf(n.number, goroutines)] = value
		case "process_open_fds":
			values[nameOf(n.number, openFiles)] = value
		}
	}
}

// redisUses adds the figures of Redis: of all primaries together.
func (r *run) redisUses(ctx context.Context, values map[string]float64) {
	memory, keys, ofRooms := 0.0, 0.0, 0.0
	for _, s := range r.store.servers() {
		info, err := s.Admin.InfoMap(ctx, "memory", "replication").Result()
		if err != nil {
			continue // it is dead, or stopped, and another one may be in its place
		}
		if info["Replication"]["role"] != "master" {
			continue
		}
		var used float64
		_, _ = fmt.Sscan(info["Memory"]["used_memory"], &used)
		memory += used
		for cursor := uint64(0); ; {
			var names []string
			if names, cursor, err = s.Admin.Scan(ctx, cursor, "*", 1000).Result(); err != nil {
				return
			}
			keys += float64(len(names))
			for _, name := range names {
				if strings.HasPrefix(name, "Room:") || strings.HasPrefix(name, "LockRoom:") {
					ofRooms++
				}
			}
			if cursor == 0 {
				break
			}
		}
	}
	entries := "Feed:Entries"
	if r.cfg.Profile == Cluster {
		entries = "Feed:{feed}:Entries"
	}
	commits, err := r.data.Client.XLen(ctx, entries).Result()
	if memory == 0 || err != nil {
		return
	}
	values[redisMemory], values[redisKeys] = memory/(1<<20), keys
	values[otherKeys], values[perRoom] = keys-ofRooms, ofRooms/float64(len(r.AllRooms()))
	if commits > 1000 {
		values[perCommit] = memory / float64(commits)
	}
}

// Resource is a figure of what is in use: the medians of the second and the last quarter of the run, and what it was when all had left.
type Resource struct {
	Name   string  `json:"name"`
	Second float64 `json:"second_quarter"`
	Last   float64 `json:"last_quarter"`
	End    float64 `json:"end"`
	Bound  float64 `json:"bound,omitzero"` // 0: it is not judged
	Rises  bool    `json:"rises,omitzero"`
}

// judgeUse compares quarters of a run.
func judgeUse(used []use, nodes int, length time.Duration) (list []Resource) {
	add := func(name string, f figure) {
		q := Resource{Name: name}
		var second, last []float64
		for _, u := range used {
			value, is := u.values[name]
			switch part := float64(u.at) / float64(length); {
			case !is:
			case u.end:
				q.End = value
			case part >= 0.25 && part < 0.5:
				second = append(second, value)
			case part >= 0.75:
				last = append(last, value)
			}
		}
		if len(second) > 0 {
			q.Second = report.Median(second)
		}
		if len(last) > 0 {
			q.Last = report.Median(last)
		}
		if f.judged && length >= judgedFrom && len(second) > 0 && len(last) > 0 {
			q.Bound = q.Second*(1+mayRise) + f.slack
			q.Rises = q.Last > q.Bound || f.drops && q.End > q.Bound
		}
		list = append(list, q)
	}
	for i := range nodes {
		for _, f := range nodeFigures {
			add(nameOf(i+1, f.name), f)
		}
	}
	for _, f := range redisFigures {
		add(f.name, f)
	}
	return list
}

// useJudged adds what is in use. What rises is a violation.
func (r *Report) useJudged(used []use, length time.Duration) {
	r.used, r.Resources = used, judgeUse(used, r.Nodes, length)
	for _, q := range r.Resources {
		if q.Rises {
			r.Violations = append(r.Violations, fmt.Sprintf("%s rises: %.0f in the second quarter, %.0f in the last one, %.0f at the end; at most %.0f were allowed", q.Name, q.Second, q.Last, q.End, q.Bound))
		}
	}
}
