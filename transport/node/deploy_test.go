package node

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
)

// exported are the labels and their values of each metric, such as le: 0.1, 0.25.
type exported map[string]map[string][]string

var (
	labelled = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})?$`)
	label    = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
)

// playedLittle returns what a node exports on which somebody has played.
func playedLittle(t *testing.T) exported {
	t.Helper()
	n := observe(t, redisurl.Embedded, nil, tellFlags(t)...)
	join(t, n.dial("a"), "42")
	all := make(exported)
	for name := range n.scrape() {
		parts := labelled.FindStringSubmatch(name)
		redistest.FatalIf(t, parts == nil, "a metric that cannot be read: %s", name)
		if all[parts[1]] == nil {
			all[parts[1]] = map[string][]string{}
		}
		for _, l := range label.FindAllStringSubmatch(parts[2], -1) {
			all[parts[1]][l[1]] = append(all[parts[1]][l[1]], l[3])
		}
	}
	return all
}

// families returns the metrics of roomd by the names that people use, with their labels, as in
// roomd_actions_total{kind,result}.
func (all exported) families() (names []string) {
	for name, labels := range all {
		base, isBucket := strings.CutSuffix(name, "_bucket")
		inner := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		if !strings.HasPrefix(name, "roomd_") || !isBucket && all[inner+"_bucket"] != nil {
			continue // a part of a histogram
		}
		keys := slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(key string) bool { return key == "le" })
		if len(keys) > 0 {
			base += "{" + strings.Join(keys, ",") + "}"
		}
		names = append(names, base)
	}
	slices.Sort(names)
	return names
}

// Each metric stands in metrics.md of the manual, with its labels, and no other one does.
func TestManual_KnowsTheMetrics(t *testing.T) {
	t.Parallel()
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(roomd_[^`]*)` \\| ").FindAllStringSubmatch(roomdtest.Manual(t,
		"metrics.md"), -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(documented)
	names := playedLittle(t).families()
	for _, name := range names {
		redistest.ErrorIf(t, !slices.Contains(documented, name), "%s is not in the manual", name)
	}
	for _, name := range documented {
		redistest.ErrorIf(t, !slices.Contains(names, name), "%s is in the manual, and is not exported", name)
	}
}

var (
	selector = regexp.MustCompile(`\b((?:roomd|process|go)_[a-z_]+)\b(?:\{([^}]*)\})?`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// fromPrometheus are labels that Prometheus adds to what a node exports.
var fromPrometheus = []string{"instance", "job"}

// checkExpr checks that the metrics, labels and values in an expression are exported.
func (all exported) checkExpr(t *testing.T, expr string) (found int) {
	t.Helper()
	var labels []string
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		known, ok := all[s[1]]
		if !ok {
			t.Errorf("%s: there is no %s", expr, s[1])
			continue
		}
		found++
		labels = slices.AppendSeq(labels, maps.Keys(known))
		for _, l := range label.FindAllStringSubmatch(s[2], -1) {
			values, ok := known[l[1]]
			redistest.ErrorIf(t, !ok && !slices.Contains(fromPrometheus, l[1]),
				"%s: %s has no label %s", expr, s[1], l[1])
			for value := range strings.SplitSeq(l[3], "|") {
				redistest.ErrorIf(t, ok && !slices.Contains(values, value),
					"%s: %s of %s is never %q", expr, l[1], s[1], value)
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(g[1], ",") {
			if name = strings.TrimSpace(name); !slices.Contains(labels, name) &&
				!slices.Contains(fromPrometheus, name) {
				t.Errorf("%s: nothing in it has a label %s", expr, name)
			}
		}
	}
	return found
}

// lookBack is how far an expression looks back.
var lookBack = regexp.MustCompile(`\[(\w+)\]`)

func TestDeploy_Alerts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../cmd/roomd/deploy/alerts.yml")
	redistest.OK(t, err)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	redistest.OK(t, yaml.Load(text, &file, yaml.WithKnownFields()))
	all, seen := playedLittle(t), map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			redistest.ErrorIf(t, all.checkExpr(t, rule.Expr) == 0 && !strings.HasPrefix(rule.Expr, "up{"),
				"%s: %s names no metric", rule.Alert, rule.Expr)
			if seen[rule.Alert] || rule.Alert == "" || rule.Labels["severity"] == "" ||
				rule.Annotations["summary"] == "" || rule.Annotations["runbook"] == "" {
				t.Errorf("%s is there twice, or lacks a severity, a summary or a runbook", rule.Alert)
			}
			seen[rule.Alert] = true
			if back := lookBack.FindStringSubmatch(rule.Expr); back != nil && rule.For != "" {
				looks, err := time.ParseDuration(back[1])
				if lasts, bad := time.ParseDuration(rule.For); err != nil || bad != nil || lasts <= looks {
					t.Errorf("%s looks %s back and has to hold for %s: a moment of a restart fires it", rule.Alert,
						back[1], rule.For)
				}
			}
			for _, s := range selector.FindAllStringSubmatch(rule.Annotations["runbook"], -1) {
				redistest.ErrorIf(t, all[s[1]] == nil && all[s[1]+"_bucket"] == nil,
					"the runbook of %s names %s, which is not there", rule.Alert, s[1])
			}
		}
	}
	redistest.ErrorIf(t, len(seen) < 12, "only %d alerts", len(seen))
}

// The dashboard asks its one input for what is exported.
func TestDeploy_Dashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../cmd/roomd/deploy/grafana-dashboard.json")
	redistest.OK(t, err)
	type source struct{ Type, UID string }
	var board struct {
		Inputs []struct{ Name string } `json:"__inputs"`
		Panels []struct {
			Type, Title string
			Datasource  source
			Targets     []struct {
				Datasource source
				Expr       string
			}
		}
	}
	redistest.OK(t, json.Unmarshal(text, &board))
	all, input := playedLittle(t), source{"prometheus", "${" + board.Inputs[0].Name + "}"}
	for _, p := range board.Panels {
		redistest.ErrorIf(t, p.Type != "row" && (p.Datasource != input || len(p.Targets) == 0),
			"%s asks %+v, %d times", p.Title, p.Datasource, len(p.Targets))
		for _, target := range p.Targets {
			redistest.ErrorIf(t, target.Datasource != input || all.checkExpr(t, target.Expr) == 0,
				"%s: %s names no metric, or asks another data source", p.Title, target.Expr)
		}
	}
}

// logged matches what logs a message at info, warn or error, now or later, and the message, of which a text may
// have several parts.
var logged = regexp.MustCompile(`(?:\.(?:Info|Warn|Error)\(|[^.]\bwarn\(|\bWarnOver\([^"]*|slog\.Level(?:Info|Warn|Error),` +
	`|\b(?:Changed|Unusable):|\bmessage(?:, \w+)? :?=)\s*(?:fmt\.Sprintf\()?` +
	`"((?:[^"\\]|\\.)*(?:" \+\s+"(?:[^"\\]|\\.)*)*)"[^:]`)

// parts is what stands between two parts of a text.
var parts = regexp.MustCompile(`" \+\s+"`)

// logLines returns the messages that a node can log at info, warn or error, up to what differs from line to line,
// each with its place.
func logLines(t *testing.T) map[string]string {
	t.Helper()
	lines := make(map[string]string)
	for _, root := range []string{top + "transport", top + "room", top + "lockmgr"} {
		redistest.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path == top+"transport/client" {
				return filepath.SkipDir // no part of a node
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, found := range logged.FindAllSubmatch(source, -1) {
				message, _, _ := strings.Cut(parts.ReplaceAllString(string(found[1]), ""), "%")
				if message != "" {
					lines[strings.TrimSpace(message)] = path
				}
			}
			return err
		}))
	}
	return lines
}

// The manual says of each line at info, warn or error what it means and what to do, and of no other.
func TestManual_LogLines(t *testing.T) {
	t.Parallel()
	rows := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+?)` \\| (info|warn|error) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(roomdtest.Manual(t, "log.md"), -1) {
		rows[row[1]] = true
	}
	lines := logLines(t)
	redistest.FatalIf(t, len(lines) < 20, "only %d messages were found in the code", len(lines))
	for message, place := range lines {
		redistest.ErrorIf(t, !rows[message], "%s: the table lacks %q", place, message)
	}
	for message := range rows {
		redistest.ErrorIf(t, lines[message] == "", "the table has %q, which nothing logs", message)
	}
}

// The manual names each flag of a node in "Flags by task", and no flag that there is not.
func TestManual_Flags(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(roomdtest.Manual(t, "configuration.md"), "\n## Flags by task\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]bool{"help": true, "version": true, "ca": true} // of wscat
	known := model()
	for _, c := range known.Children {
		for _, flag := range c.Flags {
			all[flag.Name] = true
			redistest.ErrorIf(t, c == known.DefaultCmd && flag.Name != "help" && flag.Name != "version" &&
				!strings.Contains(section, "--"+flag.Name),
				"Flags by task lacks --%s", flag.Name)
		}
	}
	// what they take is theirs
	others := regexp.MustCompile("(?:docker|kubectl|roomload|redis-server|redis-cli|curl|jq) [^`\n]*")
	for _, name := range regexp.MustCompile("--([a-z][a-z-]+)").FindAllStringSubmatch(
		others.ReplaceAllString(roomdtest.Manual(t, "*.md"), ""), -1) {
		redistest.ErrorIf(t, !all[name[1]], "there is no flag --%s", name[1])
	}
}
