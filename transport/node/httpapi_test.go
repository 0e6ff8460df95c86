package node

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
)

// curls are the commands of the manual, each with what it prints.
var curls = regexp.MustCompile("(?s)\n```curl\n(.*?)```")

// The curl lines of the manual print what stands below them, where … is anything.
func TestManual_CurlLines(t *testing.T) {
	t.Parallel()
	redistest.Need(t, "curl")
	blocks := curls.FindAllStringSubmatch(roomdtest.Manual(t, "*.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("the manual has no curl lines")
	}
	n, _ := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--journal", "100", "--feed", "1000")
	for _, block := range blocks {
		for step := range strings.SplitSeq(strings.TrimPrefix(block[1], "$ "), "\n$ ") {
			command, want, _ := strings.Cut(step, "\n")
			command = strings.NewReplacer("127.0.0.1:8080", n.Addr(), "127.0.0.1:9090", n.AdminAddr()).Replace(command)
			pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*") + "$")
			var out []byte
			prints := func() bool {
				var err error
				out, err = exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, "curl ", "curl -sS --max-time 10 ", 1)).CombinedOutput()
				return err == nil && pattern.Match(bytes.TrimSpace(out))
			}
			if matched := prints(); !matched && !strings.Contains(command, "-X") && !strings.Contains(command, "--json") { // the lobby may know more in a moment
				redistest.Until(t, fmt.Sprintf("%s, which last printed %s, prints %s", command, out, want), prints)
			} else if !matched {
				t.Errorf("%s\nprints %s, not %s", command, out, want)
			}
		}
	}
}
