package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"roomd/loadtest/check"
	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/pause"
)

const (
	resourcesEvery = 2 * time.Second
	lookTimeout    = time.Second

	// judgedFrom is how long a run has to be for its figures to say anything, and longRun from when on the first node
	// is not killed, so that one process is there from the beginning to the end.
	judgedFrom = 2 * time.Minute
	longRun    = 10 * time.Minute

	// mayRise is the share by which the median of the last quarter may be above that of the second one, besides a
	// slack.
	mayRise = 0.25
)

// use is what nodes and Redis have in use at a moment.
type use struct {
	at     time.Duration
	end    bool               // everybody has left
	values map[string]float64 // by the name of the figure
}

// figure is something that each node, or Redis, has in use.
type figure struct {
	name  string
	unit  string  // of its chart; empty: it has none
	slack float64 // by which it may rise besides mayRise; less than 0: it is not judged
	drops bool    // in the end it is not above what it was in the run
	about string

	metric string  // of a node; empty: it is one of Redis
	each   float64 // of the metric's units are one of the figure's
}

// The figures of Redis, and one that the tests know.
const (
	goroutines  = "goroutines"
	redisMemory = "redis, MiB"
	redisKeys   = "redis, keys"
	perCommit   = "redis, bytes for each commit"
	perRoom     = "redis, keys for each room"
	otherKeys   = "redis, keys of no room"
)

const ofNode = "A node that was killed begins anew."

// figures are all of them. Faults fill a node's pool of 64 connections to Redis, which empties slowly: by so many
// open files may differ.
var figures = []figure{
	{name: "memory, MiB", unit: "MiB", slack: 16, about: ofNode, metric: "process_resident_memory_bytes",
		each: 1 << 20},
	{name: goroutines, unit: "goroutines", slack: 50, drops: true, about: ofNode, metric: "go_goroutines", each: 1},
	{name: "open files", unit: "files", slack: 80, drops: true, about: ofNode, metric: "process_open_fds", each: 1},
	{name: redisMemory, unit: "MiB", slack: -1, about: "Of all primaries. The journals and the feed keep all commits of a run, so it grows with them."},
	{name: redisKeys, unit: "keys", slack: -1, about: "A room that is empty is kept for an hour."},
	{name: perCommit, unit: "bytes", slack: 200, about: "What does not grow with commits shows at the beginning."},
	{name: perRoom, slack: 1, drops: true},
	{name: otherKeys, slack: 20, drops: true},
}

func nameOf(node int, figure string) string { return fmt.Sprintf("node %d, %s", node, figure) }

// names returns the names of the figure: one, or one for each node.
func (f *figure) names(nodes int) (names []string) {
	if f.metric == "" {
		return []string{f.name}
	}
	for i := range nodes {
		names = append(names, nameOf(i+1, f.name))
	}
	return names
}

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
		var metric string
		var value float64
		if n, _ := fmt.Sscan(lines.Text(), &metric, &value); n < 2 {
			continue
		}
		for _, f := range figures {
			if f.metric == metric {
				values[nameOf(n.number, f.name)] = value / f.each
			}
		}
	}
}

// redisUses adds the figures of Redis: of all primaries together.
func (r *run) redisUses(ctx context.Context, values map[string]float64) {
	memory, keys, ofRooms := 0.0, 0.0, 0.0
	for _, s := range r.store.all {
		info, err := s.Admin.InfoMap(ctx, "memory", "replication").Result()
		if err != nil || info["Replication"]["role"] != "master" {
			continue // it is dead, or stopped, and another one may be in its place
		}
		var used float64
		_, _ = fmt.Sscan(info["Memory"]["used_memory"], &used)
		memory += used
		scan := s.Admin.Scan(ctx, 0, "*", 1000).Iterator()
		for ; scan.Next(ctx); keys++ {
			if name := strings.TrimPrefix(scan.Val(), r.cfg.KeyPrefix); strings.HasPrefix(name, "Room:") ||
				strings.HasPrefix(name, "LockRoom:") {
				ofRooms++
			}
		}
		if scan.Err() != nil {
			return
		}
	}
	entries := r.cfg.KeyPrefix + "Feed:Entries"
	if r.cfg.Profile == Cluster {
		entries = r.cfg.KeyPrefix + "Feed:{feed}:Entries"
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

// Resource is a figure of what is in use: the medians of the second and the last quarter of the run, and what it was
// when all had left.
type Resource struct {
	Name   string  `json:"name"`
	Second float64 `json:"second_quarter"`
	Last   float64 `json:"last_quarter"`
	End    float64 `json:"end"`
	Bound  float64 `json:"bound,omitzero"` // 0: it is not judged
	Rises  bool    `json:"rises,omitzero"`
}

// judge compares quarters of a run.
func (f *figure) judge(name string, used []use, length time.Duration) Resource {
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
		if f.slack >= 0 && length >= judgedFrom && len(second) > 0 {
			q.Bound = q.Second*(1+mayRise) + f.slack
			q.Rises = q.Last > q.Bound || f.drops && q.End > q.Bound
		}
	}
	return q
}

// useJudged adds what nodes and Redis had in use. What rises is a violation.
func (r *Report) useJudged(used []use, nodes int, length time.Duration) (rising []check.Violation) {
	r.used = used
	for _, f := range figures {
		for _, name := range f.names(nodes) {
			q := f.judge(name, used, length)
			r.Resources = append(r.Resources, q)
			if q.Rises {
				rising = append(rising, check.Violation{Checker: "resources", Rule: "rises", At: length,
					Text: fmt.Sprintf(
						"%s rises: %.0f in the second quarter, %.0f in the last one, %.0f at the end; at most %.0f were allowed", q.Name, q.Second, q.Last, q.End, q.Bound)})
			}
		}
	}
	return rising
}
