package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/loadtest/lab/anomaly"
	"roomd/loadtest/report/reporttest"
	"roomd/lockmgr/redistest"
)

// The marks of a quiet machine are complete, and what is listed is among them.
func TestQuiet(t *testing.T) {
	for _, d := range disciplines {
		for _, f := range faults {
			if marks := quiet(d.name, f.name); marks == "" || (marks == markNone) == d.has(f.needs...) {
				t.Errorf("%s under %s is %q", d.name, f.name, marks)
			}
		}
		for _, l := range d.listed {
			for _, letter := range anomaly.Anomalies {
				if letter.Name == l.Anomaly && !strings.Contains(quiet(d.name, l.Fault), letter.Letter) {
					t.Errorf("%s under %s is not as listed", d.name, l.Fault)
				}
			}
		}
	}
}

// How likely two of 1,000 callers draw the same is computed from what they draw.
func TestSameToken_Chances(t *testing.T) {
	about := faults[slices.IndexFunc(faults, func(f *fault) bool { return f.name == "same-token" })].about
	for what, values := range map[string]float64{"timestamp's number": timestampHigh - timestampLow + 1, "uniqid, within a second": 1e6, "set-rand-lua's number": 100_000} {
		differ := 1.0
		for i := range 1000 {
			differ *= 1 - float64(i)/values
		}
		if want := fmt.Sprintf("%.1f %% (%s)", 100*(1-differ), what); !strings.Contains(about, want) {
			t.Errorf("%q does not say %q", about, want)
		}
	}
}

// played is a report in which every cell showed exactly what is listed for it.
func played() *Report {
	r := newReport(Config{Second: LeastSecond}, "a Redis")
	for _, row := range r.Disciplines {
		for _, c := range row.Cells {
			c.Done, c.second = c.Applies, LeastSecond
			c.history.TTL = time.Duration(row.discipline.ttl * float64(c.second))
			for _, l := range row.Listed {
				switch {
				case l.Fault != c.Fault:
				case l.Anomaly == waited:
					c.Anomalies.StuckMS = ms(c.history.TTL)
				default:
					*c.Anomalies.Of(l.Anomaly)++
					c.Anomalies.Forever = c.Anomalies.Forever || l.Forever
				}
			}
		}
	}
	return r
}

func (r *Report) cell(discipline, fault string) *Cell {
	row := r.Disciplines[slices.IndexFunc(r.Disciplines, func(row *Row) bool { return row.Name == discipline })]
	return row.Cells[slices.IndexFunc(row.Cells, func(c *Cell) bool { return c.Fault == fault })]
}

// What is listed has to be seen. Further anomalies of a plain discipline are no difference; all of roomd are.
func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		discipline, fault string
		change            func(*Cell)
		want              string
	}{
		{"none", "no-fault", func(c *Cell) { c.Anomalies.Lost = 1 }, ""},
		{"timestamp", "take-over", func(c *Cell) { c.Anomalies = anomaly.Counts{} },
			"timestamp did not show under take-over: takeover race"},
		{"get-compare-del", "pause-check", func(c *Cell) { c.Anomalies = anomaly.Counts{Lost: 9} }, // another does not stand in for it
			"get-compare-del did not show under pause-check: expiry between GET and DEL deletes somebody else's lock"},
		{"setnx", "crash-lock", func(c *Cell) { c.Anomalies.Forever = false },
			"setnx did not show under crash-lock: a crashed holder blocks for ever"},
		{"set-nx-lua-json", "no-fault", func(c *Cell) { c.Anomalies.StuckMS = 200 }, // less than the TTL
			"set-nx-lua-json did not show under no-fault: the next join waits for all of that"},
		{"roomd", "lost-write", func(c *Cell) {
			c.findings = []anomaly.Finding{{What: anomaly.Deleted, Subject: "赵六", By: "张三"}}
		}, "roomd under lost-write: 张三 deleted 赵六's lock"},
	} {
		r := played()
		tt.change(r.cell(tt.discipline, tt.fault))
		r.judge()
		if got := strings.Join(r.Differences, "\n"); got != tt.want || r.AsListed() != (tt.want == "") || (r.Verdict == "as listed") != (tt.want == "") {
			t.Errorf("%s under %s: %s, %s", tt.discipline, tt.fault, r.Verdict, got)
		}
	}
	// Only faults that were played count.
	r := newReport(Config{Only: []string{"setnx", "none"}, Faults: []string{"lost-write"}}, "")
	if r.judge(); !r.AsListed() || len(r.Disciplines) != 2 || len(r.Disciplines[0].Cells) != 1 || len(r.Disciplines[1].Listed) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestMatrix(t *testing.T) {
	r := newReport(Config{Only: []string{"setnx", "roomd"}, Faults: []string{"no-fault", "pause-write", "crash-setnx", "crash-lock"}}, "")
	show := func(c *Cell, a anomaly.Counts) {
		c.Done, c.Anomalies = true, a
		c.ByChance = c.byChance()
	}
	setnx := r.Disciplines[0].Cells
	show(setnx[0], anomaly.Counts{})
	show(setnx[1], anomaly.Counts{Lost: 1, Phantom: 2, TwoHolders: 3, Deleted: 4})
	show(setnx[3], anomaly.Counts{Stuck: 1, Forever: true})
	show(r.Disciplines[1].Cells[0], anomaly.Counts{TwoHolders: 1})
	want := "" + "                         no  pause crash crash\n" +
		"                      fault  write setnx  lock\n" +
		"setnx                     · (LP2D)     –    S∞\n" +
		"roomd                     2            –      \n"
	var plain, color bytes.Buffer
	redistest.OK(t, r.WriteMatrix(&plain, false))
	redistest.Equal(t, "the matrix is", plain.String(), want)
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
	for _, want := range []string{"a Redis. A published second lasts 100 ms", "set-nx-lua", "no guard", "1.1", "1.6 TTLs", "never", "5.4 %",
		"5: lock() for a cache", "SETNX lock 1, EXPIRE lock 10s … DEL lock", "dirty read", "verdict  as listed", "∞    for ever"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, &table)
		}
	}
}

// The JSON report is a contract.
func TestReport_Fields(t *testing.T) {
	n := CacheCounts{Loads: 1}
	text, err := json.Marshal(&Report{
		Disciplines: []*Row{{Cells: []*Cell{{ByChance: []string{""}}}, Listed: []Listed{{Forever: true}}}},
		Cache:       []CacheResult{{Gone: n, Old: n, Slow: n, Dead: n, Empty: n}}, Differences: []string{""},
	})
	redistest.OK(t, err)
	const counts = `{"callers":0,"loads":1,"at_once":0,"freed":0,"longest_wait_ms":0,"stale":0,"errors":0,"updated_ms":0,"never":false}`
	redistest.Equal(t, "the report is", string(text), `{"redis":"","second_ms":0,"duration_s":0,"disciplines":[{"name":"","article":"","about":"",`+
		`"cells":[{"discipline":"","fault":"","applies":false,"done":false,"anomalies":{"lost":0,"phantom":0,"duplicate":0,`+
		`"two_holders":0,"deleted":0,"kept":0,"stuck":0,"stuck_ms":0,"stuck_forever":false},"by_chance":[""]}],`+
		`"listed":[{"text":"","fault":"","anomaly":"","forever":true,"seen":false}]}],`+
		`"cache":[{"guard":"","gone":`+counts+`,"old":`+counts+`,"slow":`+counts+`,"dead":`+counts+`,"empty":`+counts+`}],`+
		`"verdict":"","differences":[""]}`)
}

// stolen is a history with a deleted lock, and a user who is in the list twice.
var stolen = anomaly.History{
	Initial: []string{"李四", "王五"},
	Events: []anomaly.Event{
		{At: 1 * time.Millisecond, Kind: anomaly.Asked, Caller: "<b>张三"},
		{At: 302 * time.Millisecond, Kind: anomaly.Locked, Caller: "王五", Owner: "王五"},
		{At: 305 * time.Millisecond, Kind: anomaly.Stored, Caller: "张三", Users: []string{"王五", "张三", "张三"}},
		{At: 306 * time.Millisecond, Kind: anomaly.Unlocked, Caller: "张三", Owner: "王五"},
		{At: 307 * time.Millisecond, Kind: anomaly.ToldOK, Caller: "张三"},
	},
	Final: []string{"王五", "张三", "张三"}, TTL: time.Second,
}

func TestPage(t *testing.T) {
	r := played()
	r.Cache = []CacheResult{{Guard: "<guard>"}}
	r.cell("set-nx-del", "pause-release").fill(LeastSecond, stolen)
	r.cell("timestamp", "take-over").Anomalies = anomaly.Counts{}
	r.judge()
	var out bytes.Buffer
	redistest.OK(t, r.WriteHTML(&out))
	html := out.String()
	for _, want := range []string{
		"✗</span> different", `<li><a href="#timestamp-under-take-over">timestamp did not show`, `<h3 id="timestamp-under-take-over">`,
		`<a href="#set-nx-del-under-pause-release">`, `<h3 id="set-nx-del-under-pause-release">`, "3.060 s  张三 unlocked: 王五&#39;s lock",
		"3.070 s  张三 is in the list more than once", "&lt;b&gt;张三 asked to join", "&lt;guard&gt;</th>", "It must show: lost updates (pause-write). ",
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
