package roomd

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// curls are the commands of the manual, each with what it prints.
var curls = regexp.MustCompile("(?s)\n```curl\n(.*?)```")

// The curl lines of the manual print what stands below them, where … is anything.
func TestManual_CurlLines(t *testing.T) {
	t.Parallel()
	redistest.Need(t, "curl")
	manual, err := os.ReadFile(manual)
	redistest.OK(t, err)
	blocks := curls.FindAllStringSubmatch(string(manual), -1)
	if len(blocks) == 0 {
		t.Fatal("OPERATING.md has no curl lines")
	}
	n, _ := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--journal", "100", "--feed", "1000")
	for _, block := range blocks {
		for step := range strings.SplitSeq(strings.TrimPrefix(block[1], "$ "), "\n$ ") {
			command, want, _ := strings.Cut(step, "\n")
			command = strings.NewReplacer("127.0.0.1:8080", n.Addr(), "127.0.0.1:9090", n.AdminAddr()).Replace(command)
			out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, "curl ", "curl -sS --max-time 10 ", 1)).CombinedOutput()
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*")
			if matched, bad := regexp.MatchString("^"+pattern+"$", strings.TrimSpace(string(out))); err != nil || bad != nil || !matched {
				t.Errorf("%s\nprints %s, not %s (%v)", command, out, want, err)
			}
		}
	}
}
