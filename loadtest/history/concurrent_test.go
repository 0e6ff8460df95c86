package history

import (
	"fmt"
	"go/build"
	"strings"
	"sync"
	"testing"
)

// Many connections feed one ledger at once, each from a goroutine of its own.
func TestLedger_ManyConnections(t *testing.T) {
	const rooms, watchers, versions = 3, 8, 500
	l := NewLedger(Options{})
	final := make(map[string]RoomState)
	var all sync.WaitGroup
	for r := range rooms {
		room := fmt.Sprintf("load-%d", r)
		final[room] = RoomState{Epoch: "e", Version: versions + 1, Users: members("a0")}
		for w := range watchers {
			all.Go(func() {
				v := l.View(room, "a", fmt.Sprintf("player-%d", w))
				v.Joined(0, List{Epoch: "e", Version: 1, Count: 1, Users: members("a0")})
				for n := range uint64(versions) {
					change := Change{Type: Join, User: "b", Seat: 1}
					if n%2 == 1 {
						change.Type = Leave
					}
					v.Changed(Event{"e", n + 2, n + 1, []Change{change}})
				}
			})
		}
	}
	all.Wait()
	l.Check(final)
	if v := l.Violations(); v.Total() != 0 {
		t.Errorf("found %+v: %q", v.Counts(), v.Descriptions())
	}
}

// A mistake in the server's rules must not hide in the proof, so this package imports none
// of the server's, and of ours the model only, which imports nothing.
func TestHistory_ImportsNothingOfTheServer(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range p.Imports {
		first, _, _ := strings.Cut(path, "/")
		if path != "roomd/loadtest/internal/model" && (strings.HasPrefix(path, "roomd/") || strings.Contains(first, ".")) {
			t.Errorf("imports %s", path)
		}
	}
}
