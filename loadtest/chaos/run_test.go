package chaos

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"roomd/loadtest"
	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	Main() // Run starts this binary again
	goleak.VerifyTestMain(m)
}

// small is a short run with few players.
func small() Config {
	return Config{
		Profile: Standalone, Persist: PersistAlways, Nodes: 2, Clients: 12, Rooms: 3, Capacity: 6, Duration: 6 * time.Second, Seed: 1, Mix: loadtest.MixNames,
	}
}

func TestRun_FindsNothing(t *testing.T) {
	redistest.Thorough(t)
	redistest.Need(t, "redis-server")
	cfg := small()
	cfg.Faults = []string{"node-kill", "net-swallow"}
	var history, table, page bytes.Buffer
	cfg.History = &history
	var phases []string
	cfg.Progress = func(_ time.Duration, stays bool, line string) {
		if stays {
			phases = append(phases, line)
		}
	}
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Consistent() || report.Actions == 0 || report.Witnessed == 0 || report.Linearized == 0 || len(report.Faults) == 0 {
		t.Errorf("%+v", report)
	}
	if f := report.Feed; f.Pages != report.Commits || f.Events != report.Commits || f.Webhook != report.Commits || f.Gaps > 0 || f.Failed == 0 {
		t.Errorf("of %d commits the readers of the feed have heard %v", report.Commits, f)
	}
	if len(report.Resources) == 0 || report.Resources[0].End == 0 {
		t.Errorf("what is in use: %+v", report.Resources)
	}
	for _, kind := range []string{`"call":`, `"return":`, `"event":`, `"fault":`, `"told":`} {
		if !strings.Contains(history.String(), kind) {
			t.Errorf("the history has no %s", kind)
		}
	}
	if all := strings.Join(phases, "\n"); !strings.Contains(all, " actions    0 unknown  players come") ||
		!strings.Contains(all, "after n") || strings.Contains(all, "PROBLEMS") {
		t.Errorf("the phases are\n%s", all)
	}
	if err := report.WriteTable(&table); err != nil || !strings.Contains(table.String(), "--seed 1") {
		t.Errorf("%v: %s", err, &table)
	}
	if err := report.WriteHTML(&page); err != nil || !strings.Contains(page.String(), `"spans":[{`) {
		t.Errorf("the page: %v", err)
	}
}

// Redis comes back empty: all is lost, which is allowed, and the rooms begin anew.
func TestRun_CountsWhatIsLost(t *testing.T) {
	redistest.Thorough(t)
	redistest.Need(t, "redis-server")
	cfg := small()
	cfg.Duration, cfg.Faults = 2*time.Second, []string{"redis-empty"}
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Consistent() || report.Lost == 0 || report.Faults[0].Lost != report.Lost {
		t.Errorf("%+v", report)
	}
}

// Servers of a Cluster forget their scripts again and again. A commit that is sent again, because its outcome is not known,
// and is not carried out then, may have been written by the sending before: it is not refused.
func TestRun_ClusterForgetsScripts(t *testing.T) {
	redistest.Thorough(t)
	redistest.Need(t, "redis-server")
	cfg := small()
	cfg.Profile, cfg.Replicas, cfg.Nodes, cfg.Clients, cfg.Rooms, cfg.Capacity = Cluster, 1, 3, 30, 6, 8
	cfg.Duration, cfg.Faults, cfg.Seed = 8*time.Second, []string{"script-flush"}, 3
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Consistent() {
		t.Errorf("%s: %q", report.Verdict, report.Details)
	}
}

func TestValidate(t *testing.T) {
	for begins, spoil := range map[string]func(*Config){
		"--profile is": func(c *Config) { c.Profile = "x" }, "--persist is": func(c *Config) { c.Persist = "" }, "--replicas is": func(c *Config) { c.Replicas = 1 },
		"--nodes is": func(c *Config) { c.Nodes = 0 }, "--clients is": func(c *Config) { c.Clients = 0 }, "--rooms is": func(c *Config) { c.Rooms = 0 },
		"--capacity is": func(c *Config) { c.Capacity = 1 }, "--duration is": func(c *Config) { c.Duration = 0 }, "--recover is": func(c *Config) { c.Recover = -1 },
		"--mix is": func(c *Config) { c.Mix = []string{"x"} }, "--faults is": func(c *Config) { c.Faults = []string{"x"} },
	} {
		c := small()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), begins) {
			t.Errorf("%s: %v", begins, err)
		}
	}
	if err := small().Validate(); err != nil {
		t.Error(err)
	}
}
