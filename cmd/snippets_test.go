package cmd_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// snippetImports are what a snippet may import without saying so, and use one name of each, so that it need not use
// all.
const snippetImports = `package snippet

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"roomd/lockmgr"
	"roomd/lockmgr/cachefill"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/client/referee"
	"roomd/transport/protocol"
	"roomd/transport/node"
)

var _ = []any{context.Background, hmac.New, sha256.New, base64.StdEncoding, errors.New, fmt.Print, http.StatusOK, slices.Max[[]int],
	strconv.Itoa, strings.Cut, time.Now, lockmgr.New, cachefill.New, room.Forbid, client.Connect, referee.Config{}, protocol.ErrUnknown, node.Main}
`

// given is what the snippets of a document take from the reader's program.
var given = map[string]string{
	"README.md":                       "func render(client.Change, any, protocol.JSON) {}",
	"cmd/roomd/operating/webhooks.md": "",
	"transport/client/README.md":      "type Table struct{ Started bool }\nvar errStarted error\nvar login func(context.Context) (string, error)\nfunc draw([]client.LobbyRoom, bool) {}",
	"lockmgr/README.md": "var row int\nvar store interface{ Write(context.Context, int, int64) }\n" +
		"var bill func(context.Context, *lockmgr.Lock) error\nvar readLobby func(context.Context) ([]byte, error)",
	"transport/client/referee/README.md": "type duel struct{ referee.Game }\nvar secret []byte",
}

// Each snippet of Go in a document compiles.
func TestDocuments_GoCompiles(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	root, err := filepath.Abs("..")
	redistest.OK(t, err)
	dir := t.TempDir()
	var packages []string
	overlay := map[string]string{}
	add := func(name, content string) {
		copied := filepath.Join(dir, fmt.Sprint(len(overlay)))
		redistest.OK(t, os.WriteFile(copied, []byte(content), 0o600))
		overlay[filepath.Join(root, filepath.FromSlash(name))] = copied
	}
	for _, document := range documents(t, root) {
		text, err := os.ReadFile(filepath.Join(root, document))
		redistest.OK(t, err)
		for i, match := range regexp.MustCompile("(?ms)^```go.*?\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			name := fmt.Sprintf("cmd/snippets/%s/%d", strings.ReplaceAll(document, ".", "_"), i+1)
			packages = append(packages, "./"+name)
			if regexp.MustCompile(`(?m)^package `).MatchString(match[1]) {
				add(name+"/snippet.go", match[1])
				continue
			}
			declared, known := given[filepath.ToSlash(document)]
			if !known {
				t.Errorf("%s: the test has to say what its snippets take from the reader's program", document)
			}
			add(name+"/snippet.go", snippetImports+declared+"\n"+compilable(match[1]))
		}
	}
	if len(packages) < 12 {
		t.Errorf("only %d snippets were found", len(packages))
	}
	files, err := json.Marshal(map[string]any{"Replace": overlay})
	redistest.OK(t, err)
	redistest.OK(t, os.WriteFile(filepath.Join(dir, "overlay.json"), files, 0o600))
	compile := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-overlay", filepath.Join(dir, "overlay.json")}, packages...)...)
	compile.Dir = root
	if out, err := compile.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// documents returns the documents of the repository.
func documents(t *testing.T, root string) (all []string) {
	t.Helper()
	redistest.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			document, _ := filepath.Rel(root, path)
			all = append(all, document)
		}
		return err
	}))
	return all
}

// compilable returns a snippet as declarations: statements go into a function, which uses what they declare, and a
// function that is only named gets a body.
func compilable(snippet string) string {
	if regexp.MustCompile(`^(//.*\n)*(func|type|var|const) `).MatchString(snippet) {
		return regexp.MustCompile(`(?m)^func [^{\n]*$`).ReplaceAllString(snippet, "$0 { panic(0) }")
	}
	var used strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) := `).FindAllStringSubmatch(snippet, -1) {
		fmt.Fprintf(&used, "\t%s = %s\n", regexp.MustCompile(`\w+`).ReplaceAllString(line[1], "_"), line[1])
	}
	room := "room"
	if strings.Contains(snippet, "&room.") { // the package
		room = "_"
	}
	return "func snippet(ctx context.Context, c *client.Client, " + room + " *client.Room, locks *lockmgr.Manager) error {\n{\n" +
		snippet + used.String() + "}\nreturn nil\n}\n"
}
