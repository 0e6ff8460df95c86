package chaos

import (
	"bufio"
	"context"
	"fmt"
	"html/template"
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

	// judgedFrom is the shortest run whose figures are judged. In runs of at least longRun the first node is
	// not killed, so that one process lasts for the whole run.
	judgedFrom = 2 * time.Minute
	longRun    = 10 * time.Minute

	// mayRise is the share by which the last quarter's median may exceed the second's, in addition to a slack.
	mayRise = 0.25
)

// use is a sample of the resources of nodes and Redis.
type use struct {
	at     time.Duration
	end    bool               // everybody has left
	values map[string]float64 // by figure
}

// figure is a resource of each node, or of Redis.
type figure struct {
	name  string
	unit  string  // of its chart; "" for no chart
	slack float64 // how much it may rise in addition to mayRise; if negative, it is not judged
	drops bool    // at the end it must not exceed its value during the run
	about string

	metric string  // of a node; "" for a figure of Redis
	each   float64 // units of the metric per unit of the figure
}

// Names of figures.
const (
	goroutines  = "goroutines"
	redisMemory = "redis, MiB"
	redisKeys   = "redis, keys"
	perCommit   = "redis, bytes for each commit"
	perRoom     = "redis, keys for each room"
	otherKeys   = "redis, keys of no room"
)

const ofNode = "A node that was killed begins anew."

// figures has all figures. Faults fill a node's pool of 64 connections to Redis, which shrinks slowly, so the
// number of open files may vary by as many.
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

// names returns the figure's names: one, or one for each node.
func (f *figure) names(nodes int) (names []string) {
	if f.metric == "" {
		return []string{f.name}
	}
	for i := range nodes {
		names = append(names, nameOf(i+1, f.name))
	}
	return names
}

// resources takes samples until ctx ends.
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
		n.uses(ctx, u.values) // fails for a node that is dead or stopped
	}
	r.redisUses(ctx, u.values)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = append(r.used, u)
}

// uses adds the figures of a node from its metrics.
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

// redisUses adds the figures of Redis, summed over all primaries.
func (r *run) redisUses(ctx context.Context, values map[string]float64) {
	memory, keys, ofRooms := 0.0, 0.0, 0.0
	for _, s := range r.store.all {
		info, err := s.Admin.InfoMap(ctx, "memory", "replication").Result()
		if err != nil || info["Replication"]["role"] != "master" {
			continue // it is dead or stopped, and another one may have replaced it
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

// Resource is the trend of a figure: the medians of the second and the last quarter of the run, and the value
// after everybody has left.
type Resource struct {
	Name   string  `json:"name"`
	Second float64 `json:"second_quarter"`
	Last   float64 `json:"last_quarter"`
	End    float64 `json:"end"`
	Bound  float64 `json:"bound,omitzero"` // 0 if it is not judged
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

// useJudged adds the resources of nodes and Redis. It returns a violation for each that rises.
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

// flat summarizes whether resources rise.
func (r *Report) flat() string {
	rises, judged := 0, 0
	for _, q := range r.Resources {
		if q.Bound > 0 {
			judged++
		}
		if q.Rises {
			rises++
		}
	}
	switch {
	case judged == 0:
		return fmt.Sprintf("the run is too short to say whether anything rises; from %v on it is judged", judgedFrom)
	case rises > 0:
		return fmt.Sprintf("%d of %d figures rise", rises, judged)
	}
	return fmt.Sprintf("flat: none of %d figures rises", judged)
}

func (r *Report) resources() *report.Table {
	t := &report.Table{
		Title: "What is in use", Columns: []report.Column{
			{Head: "figure", Words: true}, {Head: "second quarter", About: "the median of the run's second quarter"},
			{Head: "last quarter"},
			{Head: "end", About: "when everybody had left"}, {Head: "at most",
				About: "what the last quarter may have: a quarter more than the second one, and a little"},
		},
	}
	for _, q := range r.Resources {
		bound := "–"
		if q.Bound > 0 {
			bound = fmt.Sprintf("%.1f", q.Bound)
		}
		if q.Rises {
			bound += ": it rises"
		}
		t.Rows = append(t.Rows, report.Row{Cells: []string{q.Name, fmt.Sprintf("%.1f", q.Second),
			fmt.Sprintf("%.1f", q.Last), fmt.Sprintf("%.1f", q.End), bound}})
	}
	return t
}

func (r *Report) resourceCharts() (charts []template.HTML) {
	for _, f := range figures {
		if f.unit == "" {
			continue
		}
		var lines []report.Series
		for _, name := range f.names(r.Nodes) {
			label, _, _ := strings.Cut(name, ", ")
			s := report.Series{Name: label}
			for _, u := range r.used {
				if value, is := u.values[name]; is {
					s.Points = append(s.Points, report.Point{X: u.at.Round(time.Millisecond).Seconds(), Y: value})
				}
			}
			lines = append(lines, s)
		}
		title := f.name
		if f.metric != "" {
			title = "nodes: " + title
		}
		charts = append(charts, r.OverTime(title, "", f.about, f.unit, lines...))
	}
	return charts
}
