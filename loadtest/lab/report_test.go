package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/report/reporttest"
	"roomd/lockmgr/redistest"
)

// played is a report in which every cell showed exactly what is listed for it.
func played() *Report {
	r := newReport(Config{Second: LeastSecond}, "a Redis")
	for _, row := range r.Disciplines {
		for _, c := range row.Cells {
			c.Done, c.second = c.Applies, LeastSecond
			c.history.TTL = timescale{c.second}.seconds(row.discipline.ttl)
			for _, l := range row.Listed {
				if l.Fault != c.Fault {
					continue
				}
				if l.Anomaly == waited {
					c.findings.Longest = c.history.TTL
					continue
				}
				c.findings.All = append(c.findings.All, anomaly.Finding{What: l.Anomaly, Subject: "赵六", By: "张三"})
				c.findings.Forever = c.findings.Forever || l.Forever
			}
			c.Anomalies = c.findings.Counts()
		}
	}
	return r
}

func (r *Report) cell(discipline, fault string) *Cell {
	row := r.Disciplines[slices.IndexFunc(r.Disciplines, func(row *Row) bool { return row.Name == discipline })]
	return row.Cells[slices.IndexFunc(row.Cells, func(c *Cell) bool { return c.Fault == fault })]
}

func TestVerdict(t *testing.T) {
	r := played()
	r.judge()
	if !r.AsListed() || len(r.Differences) != 0 {
		t.Fatalf("%s: %q", r.Verdict, r.Differences)
	}
	for name, c := range map[string]struct {
		discipline, fault string
		change            func(*Cell)
		want              string
	}{
		"a listed anomaly is not seen": {"timestamp", "take-over", func(c *Cell) { c.Anomalies = anomaly.Counts{} },
			"timestamp did not show under take-over: takeover race"},
		"another anomaly does not stand in for it": {"get-compare-del", "pause-check", func(c *Cell) { c.Anomalies = anomaly.Counts{Lost: 9} },
			"get-compare-del did not show under pause-check: expiry between GET and DEL deletes somebody else's lock"},
		"what is stuck comes free": {"setnx", "crash-lock", func(c *Cell) { c.Anomalies.Forever = false },
			"setnx did not show under crash-lock: a crashed holder blocks for ever"},
		"a wait is shorter than the TTL": {"set-nx-lua-json", "no-fault", func(c *Cell) { c.Anomalies.StuckMS = 200 },
			"set-nx-lua-json did not show under no-fault: the next join waits for all of that"},
		"roomd fails": {"roomd", "lost-write", func(c *Cell) {
			c.findings.All = []anomaly.Finding{{What: anomaly.Deleted, Subject: "赵六", By: "张三"}}
		},
			"roomd under lost-write: 张三 deleted 赵六's lock"},
	} {
		r := played()
		c.change(r.cell(c.discipline, c.fault))
		r.judge()
		if r.AsListed() || !slices.Equal(r.Differences, []string{c.want}) {
			t.Errorf("%s: %s, %q", name, r.Verdict, r.Differences)
		}
	}
}

// Further anomalies of a plain discipline are no difference, and only faults that were played count.
func TestVerdict_AsListed(t *testing.T) {
	r := played()
	r.Disciplines[1].Cells[0].Anomalies.Lost = 1
	if r.judge(); !r.AsListed() {
		t.Error(r.Differences)
	}
	r = newReport(Config{Only: []string{"setnx", "none"}, Faults: []string{"lost-write"}}, "")
	if r.judge(); !r.AsListed() || len(r.Disciplines) != 2 || len(r.Disciplines[0].Cells) != 1 || len(r.Disciplines[1].Listed) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestMatrix(t *testing.T) {
	r := newReport(Config{Only: []string{"setnx", "roomd"}, Faults: []string{"no-fault", "pause-write", "crash-setnx", "crash-lock"}}, "")
	setnx := r.Disciplines[0]
	setnx.Cells[0].Done = true
	setnx.Cells[1].Done, setnx.Cells[1].Anomalies = true, anomaly.Counts{Lost: 1, Phantom: 2, TwoHolders: 3, Deleted: 4}
	setnx.Cells[1].ByChance = setnx.Cells[1].byChance()
	found := r.Disciplines[1].Cells[0]
	found.Done, found.Anomalies = true, anomaly.Counts{TwoHolders: 1}
	found.ByChance = found.byChance()
	setnx.Cells[3].Done, setnx.Cells[3].Anomalies = true, anomaly.Counts{Stuck: 1, Forever: true}
	want := []string{
		"                         no  pause crash crash",
		"                      fault  write setnx  lock",
		"setnx                     · (LP2D)     –    S∞",
		"roomd                     2            –      ",
	}
	var plain, color bytes.Buffer
	redistest.OK(t, r.WriteMatrix(&plain, false))
	if got := strings.Split(strings.TrimSuffix(plain.String(), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("the matrix is\n%s", &plain)
	}
	if err := r.WriteMatrix(&color, true); err != nil || !strings.Contains(color.String(), "\x1b[1;31m (LP2D)\x1b[0m") {
		t.Errorf("in color it is\n%q", &color)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	r := played()
	r.Cache = []CacheResult{{Guard: "no guard", Gone: CacheCounts{Callers: 9, Loads: 32, LongestWaitMS: 110}, Dead: CacheCounts{Callers: 2, Never: true}}}
	r.judge()
	var table bytes.Buffer
	redistest.OK(t, r.WriteTable(&table, false))
	for _, want := range []string{"a Redis. A published second lasts 100 ms", "set-nx-lua", "no guard", "1.1", "1.6 TTLs", "never", "5.4 %", "uniqid, within a second", "5: lock() for a cache", "SETEX and GET in the place", "dirty read", "verdict  as listed", "∞    for ever"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, &table)
		}
	}
}

// The JSON report is a contract.
func TestReport_Fields(t *testing.T) {
	text, err := json.Marshal(&Report{
		Disciplines: []*Row{{Cells: []*Cell{{ByChance: []string{""}}}, Listed: []Listed{{Forever: true}}}}, Cache: []CacheResult{{Empty: CacheCounts{Loads: 1}}},
		Differences: []string{""},
	})
	redistest.OK(t, err)
	var got any
	redistest.OK(t, json.Unmarshal(text, &got))
	const counts = "at_once callers errors freed loads longest_wait_ms never stale updated_ms"
	want := map[string]string{
		"":       "cache differences disciplines duration_s redis second_ms verdict",
		"cache.": "dead empty gone guard old slow", "cache.dead.": counts, "cache.empty.": counts, "cache.gone.": counts, "cache.old.": counts, "cache.slow.": counts,
		"disciplines.": "about article cells listed name", "disciplines.listed.": "anomaly fault forever seen text",
		"disciplines.cells.":           "anomalies applies by_chance discipline done fault",
		"disciplines.cells.anomalies.": "deleted duplicate kept lost phantom stuck stuck_forever stuck_ms two_holders",
	}
	fields := make(map[string]string)
	fieldsOf(fields, got, "")
	if !maps.Equal(fields, want) {
		t.Errorf("the fields are %q", fields)
	}
}

// fieldsOf notes the fields of each object, by the path to it.
func fieldsOf(fields map[string]string, v any, path string) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			fieldsOf(fields, element, path)
		}
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		fields[path] = strings.Join(names, " ")
		for _, name := range names {
			fieldsOf(fields, v[name], path+name+".")
		}
	}
}

// stolen is a history with a deleted lock, a lost user, one who is back, and one who is in
// the list twice.
var stolen = anomaly.History{
	Initial: []string{"李四", "王五"},
	Events: []anomaly.Event{
		{At: 1 * time.Millisecond, Kind: anomaly.Asked, Caller: "张三"},
		{At: 2 * time.Millisecond, Kind: anomaly.Locked, Caller: "张三", Owner: "张三"},
		{At: 3 * time.Millisecond, Kind: anomaly.Paused, Caller: "张三"},
		{At: 300 * time.Millisecond, Kind: anomaly.Expired, Owner: "张三"},
		{At: 301 * time.Millisecond, Kind: anomaly.Asked, Caller: "王五", Leave: true},
		{At: 302 * time.Millisecond, Kind: anomaly.Locked, Caller: "王五", Owner: "王五"},
		{At: 303 * time.Millisecond, Kind: anomaly.Stored, Caller: "王五", Users: []string{"李四"}},
		{At: 304 * time.Millisecond, Kind: anomaly.Resumed, Caller: "张三"},
		{At: 305 * time.Millisecond, Kind: anomaly.Stored, Caller: "张三", Users: []string{"王五", "张三", "张三"}},
		{At: 306 * time.Millisecond, Kind: anomaly.Unlocked, Caller: "张三", Owner: "王五"},
		{At: 307 * time.Millisecond, Kind: anomaly.ToldOK, Caller: "张三"},
		{At: 308 * time.Millisecond, Kind: anomaly.ToldOK, Caller: "王五"},
	},
	Final: []string{"王五", "张三", "张三"}, TTL: time.Second,
}

func TestPage(t *testing.T) {
	r := played()
	r.Cache = []CacheResult{{Guard: "<guard>"}}
	c := r.cell("set-nx-del", "pause-release")
	c.history, c.findings = stolen, anomaly.Find(stolen)
	c.history.Events = slices.Clone(stolen.Events)
	c.history.Events[0].Caller = "<b>张三"
	r.cell("timestamp", "take-over").Anomalies = anomaly.Counts{}
	r.judge()
	var out bytes.Buffer
	redistest.OK(t, r.WriteHTML(&out))
	html := out.String()
	for _, want := range []string{
		"✗</span> different", `<li><a href="#timestamp-under-take-over">timestamp did not show`, `<h3 id="timestamp-under-take-over">`,
		`<a href="#set-nx-del-under-pause-release">`, `<h3 id="set-nx-del-under-pause-release">`, "3.060 s  张三 unlocked: 王五&#39;s lock",
		"3.080 s  张三 is in the list more than once", "&lt;b&gt;张三", "&lt;guard&gt;</th>", "It must show: lost updates (pause-write). ",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("no %s on the page", want)
		}
	}
	reporttest.SelfContained(t, html)
	for _, link := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(html, -1) {
		if n := strings.Count(html, `id="`+link[1]+`"`); n != 1 {
			t.Errorf("%d elements are %s", n, link[1])
		}
	}
	// From each failure a link leads to the next one.
	if stories, ways := strings.Count(html, "<h3 id="), strings.Count(html, "the next failure"); ways != stories-1 {
		t.Errorf("%d failures, and %d ways to the next", stories, ways)
	}
	for _, d := range disciplines {
		if n := strings.Count(html, `>`+d.name+"</th>"); n < 2 { // in the matrix, and the steps
			t.Errorf("%d rows of %s", n, d.name)
		}
	}
	if err := newReport(Config{Faults: []string{cacheGuard}}, "").WriteHTML(io.Discard); err != nil {
		t.Errorf("a report of nothing: %v", err)
	}
}
