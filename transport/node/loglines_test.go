package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
)

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
	if len(lines) < 20 {
		t.Fatalf("only %d messages were found in the code", len(lines))
	}
	for message, place := range lines {
		if !rows[message] {
			t.Errorf("%s: the table lacks %q", place, message)
		}
	}
	for message := range rows {
		if lines[message] == "" {
			t.Errorf("the table has %q, which nothing logs", message)
		}
	}
}

// The manual names each flag of a node in "Flags by task", and no flag that there is not.
func TestManual_Flags(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(roomdtest.Manual(t, "configuration.md"), "\n## Flags by task\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]bool{"help": true, "version": true, "ca": true} // of wscat
	known := model(t)
	for _, c := range known.Children {
		for _, flag := range c.Flags {
			all[flag.Name] = true
			if c == known.DefaultCmd && flag.Name != "help" && flag.Name != "version" && !strings.Contains(section, "--"+flag.Name) {
				t.Errorf("Flags by task lacks --%s", flag.Name)
			}
		}
	}
	others := regexp.MustCompile("(?:docker|kubectl|roomload|redis-server|redis-cli|curl|jq) [^`\n]*") // what they take is theirs
	for _, name := range regexp.MustCompile("--([a-z][a-z-]+)").FindAllStringSubmatch(others.ReplaceAllString(roomdtest.Manual(t, "*.md"), ""), -1) {
		if !all[name[1]] {
			t.Errorf("there is no flag --%s", name[1])
		}
	}
}
