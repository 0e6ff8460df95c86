package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport"
)

// codeIn returns the first code of a kind in a document. It has to be short.
func codeIn(t *testing.T, document, kind string, mostLines int) string {
	t.Helper()
	text, err := os.ReadFile(document)
	redistest.OK(t, err)
	found := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindSubmatch(text)
	redistest.FatalIf(t, found == nil, "%s has no %s", document, kind)
	if n := strings.Count(string(found[1]), "\n"); n > mostLines {
		t.Errorf("the %s of %s has %d lines, and should be short", kind, document, n)
	}
	return string(found[1])
}

// programIn installs the first JavaScript of a document, which needs no package, as a program for a Node without a
// WebSocket of its own, and returns its path.
func programIn(t *testing.T, document string) string {
	t.Helper()
	program := filepath.Join(filepath.Dir(install(t, codeIn(t, document, "js", 35))), "main.mjs")
	if err := os.WriteFile(program, []byte(`import WebSocket from "ws"; globalThis.WebSocket = WebSocket; await import("./game.mjs")`), 0o644); err != nil {
		t.Fatal(err)
	}
	return program
}

// install makes a folder with the game, where it finds the packages that it imports.
func install(t *testing.T, game string) string {
	t.Helper()
	dir := t.TempDir()
	modules := filepath.Join(dir, "node_modules")
	here, err := filepath.Abs(".")
	if err == nil {
		err = os.Mkdir(modules, 0o755)
	}
	for name, path := range map[string]string{"roomd": here, "ws": filepath.Join(here, "testdata", "node_modules", "ws")} {
		if err == nil {
			err = os.Symlink(path, filepath.Join(modules, name))
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "game.mjs"), []byte(game), 0o644)
	}
	redistest.OK(t, err)
	return filepath.Join(dir, "game.mjs")
}

// The game of the README, played by three processes at two nodes: one starts it, each rolls, and all
// see the winner that the rolls make.
func TestREADME_Game(t *testing.T) {
	t.Parallel()
	needNode(t)
	script := install(t, codeIn(t, "README.md", "js game", 60))
	db := openEmbedded(t)
	first, _ := startNode(t, db, "127.0.0.1:0", transport.Options{})
	second, _ := startNode(t, db, "127.0.0.1:0", transport.Options{})
	players := []string{"ada", "bob", "eve"}
	said := make([]string, len(players))
	var playing sync.WaitGroup
	for i, name := range players {
		url := []string{first.URL(), second.URL()}[i%2]
		playing.Go(func() { said[i] = runNode(t, script, url, "dice", name) })
	}
	playing.Wait()

	all := strings.Join(said, "")
	if n := strings.Count(all, "starts the game"); n != 1 {
		t.Errorf("%d players have started the game:\n%s", n, all)
	}
	rolls := map[string]int{}
	var winners []string
	for i, name := range players {
		for line := range strings.Lines(said[i]) {
			var roll int
			if n, _ := fmt.Sscanf(line, name+" rolls %d", &roll); n == 1 {
				rolls[name] = roll
			}
			if winner, ok := strings.CutSuffix(line, " wins\n"); ok {
				winners = append(winners, winner)
			}
		}
	}
	redistest.FatalIf(t, len(winners) != 3 || len(slices.Compact(slices.Clone(winners))) != 1 || len(rolls) != 3,
		"winners %q, rolls %v:\n%s", winners, rolls, all)
	for name, roll := range rolls {
		redistest.ErrorIf(t, roll > rolls[winners[0]],
			"%s rolled %d, and %s wins with %d", name, roll, winners[0], rolls[winners[0]])
	}
}
