package keys

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// names returns the names that a deployment uses for a room, a node, and what belongs to no room.
func (s Space) names(id, node string) []string {
	list := []string{s.Lease(node), s.NodeRooms(node), s.NodeInfo(node), s.Drain(node), s.Stopped(node), s.Over(node),
		s.Nodes("{ma}"), s.Lobby("Rooms"), s.Lobby("Free:" + id), s.Lobby("Match:" + id), s.Feed("Entries"), s.Timers()}
	for _, kind := range []string{Users, Meta, Log, Said, Events} {
		list = append(list, s.Room(id, kind))
	}
	lock := s.LockPrefix() + id
	return append(list, lock, lock+":Queue", lock+":Fence", lock+":Wake:00c0ffee")
}

// patterns returns what a deployment searches Redis for.
func (s Space) patterns() []string {
	return []string{s.Room("*", Users), s.Room("*", Meta), s.Room("*", Log)}
}

// Without a prefix the names are those of the contract, byte for byte, and a prefix stands before all of them.
func TestSpace_Names(t *testing.T) {
	for want, got := range map[string]string{
		"LockRoom:42":           Space{}.LockPrefix() + "42",
		"Room:42:Users":         Space{}.Room("42", Users),
		"Room:{42}:Events":      Space{Cluster: true}.Room("42", Events),
		"Node:n1":               Space{}.Lease("n1"),
		"Node:n1:Rooms":         Space{}.NodeRooms("n1"),
		"Nodes":                 Space{}.Nodes(""),
		"Nodes:{ma}":            Space{Cluster: true}.Nodes("{ma}"),
		"Lobby:Rooms":           Space{}.Lobby("Rooms"),
		"Lobby:{lobby}:Free:":   Space{Cluster: true}.Lobby("Free:"),
		"Feed:Entries":          Space{}.Feed("Entries"),
		"Feed:{feed}:Entries":   Space{Cluster: true}.Feed("Entries"),
		"Timers:due":            Space{}.Timers(),
		"eu:LockRoom:42":        Space{Prefix: "eu:"}.LockPrefix() + "42",
		"eu:Room:{42}:Users":    Space{Prefix: "eu:", Cluster: true}.Room("42", Users),
		"eu:Lobby:{lobby}:Gone": Space{Prefix: "eu:", Cluster: true}.Lobby("Gone"),
	} {
		redistest.Equal(t, "the name", got, want)
	}
	for _, cluster := range []bool{false, true} {
		plain, prefixed := Space{Cluster: cluster}.names("42", "n1"), Space{"eu:", cluster}.names("42", "n1")
		for i := range plain {
			redistest.Equal(t, "with a prefix", prefixed[i], "eu:"+plain[i])
		}
		redistest.Equal(t, "the room", Space{"eu:", cluster}.RoomOf(Space{"eu:", cluster}.Room("42", Log), Log), "42")
	}
}

func TestCheck(t *testing.T) {
	for _, prefix := range []string{"", "eu:", "eu:test:", "a.b_c-1:", "room:", "eu:42:", strings.Repeat("x", 63) + ":"} {
		if err := Check(prefix); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for prefix, want := range map[string]string{
		"eu": `end with a colon, such as "eu:"`, "eu-": "end with a colon", " ": "not ' '", "eu :": "not ' '", "e*u:": "not '*'", "e?:": "not '?'", "[eu]:": "not '['", `\eu:`: `not '\\'`,
		"{eu}:": "not '{'", "eu}:": "not '}'", "欧:": "not '欧'", "eu\n:": `not '\n'`, "eu\xff:": "not", strings.Repeat("x", 64) + ":": "at most 64 characters long, not 65",
		"Room:": `not have "Room"`, "eu:Room:": `not have "Room"`, "LockRoom:": `not have "LockRoom"`, "Nodes:": `not have "Nodes"`, "Lobby:x:": "Lobby", "a:Timers:b:": "Timers", "Feed:": "Feed", "Roomy:": `not have "Roomy"`,
	} {
		var invalid *room.InvalidError
		err := Check(prefix)
		if !errors.As(err, &invalid) || invalid.Field != "KeyPrefix" || !strings.Contains(invalid.Problem, want) || !strings.Contains(invalid.Problem, fmt.Sprintf("is %q", prefix)) {
			t.Errorf("%q: %v, want %q", prefix, err, want)
		}
	}
}

// Two deployments whose prefixes Check allows have no name in common, and no name of one fits a pattern of the other. The
// prefixes are made of what could be confused.
func TestCheck_Apart(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "42", "eu", "Users", "Lock", "Room", "Node", "Nodes", "Lobby", "Feed", "Meta", "Queue", "room", "", "-", "aRoom"})
	prefix := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(part, 0, 4).Draw(t, "parts")
		return strings.Join(append(parts, ""), rapid.SampledFrom([]string{":", ":", "::", ""}).Draw(t, "between"))
	}).Filter(func(p string) bool { return Check(p) == nil })
	names := rapid.SampledFrom([]string{"42", "a", "Room", "Users", "Meta", "Queue", "Nodes", "Rooms"})
	rapid.Check(t, func(t *rapid.T) {
		a := Space{prefix.Draw(t, "a"), rapid.Bool().Draw(t, "cluster")}
		b := Space{a.Prefix + prefix.Draw(t, "b"), a.Cluster} // those that do not begin with each other are no question
		if a == b || Check(b.Prefix) != nil {
			t.Skip("one deployment, or no prefix")
		}
		mine, others := make(map[string]bool), b.names(names.Draw(t, "room"), names.Draw(t, "node"))
		for _, name := range a.names(names.Draw(t, "room"), names.Draw(t, "node")) {
			mine[name] = true
		}
		for _, name := range others {
			if mine[name] {
				t.Fatalf("both %q and %q have %s", a.Prefix, b.Prefix, name)
			}
		}
		for _, deployments := range [][2]Space{{a, b}, {b, a}} {
			for _, pattern := range deployments[0].patterns() {
				for _, name := range deployments[1].names("42", "n1") {
					if fits, err := path.Match(pattern, name); fits || err != nil {
						t.Fatalf("%s of %q fits %s of %q (%v)", name, deployments[1].Prefix, pattern, deployments[0].Prefix, err)
					}
				}
			}
		}
	})
}

// named is how a name begins.
var named = regexp.MustCompile(`^(LockRoom|Room|Nodes?|Lobby|Timers|Feed):|^Nodes$`)

// No other package of the coordinator, and no script, has a name of its own: it would have no prefix.
func TestSpace_OnlyPlace(t *testing.T) {
	redistest.OK(t, filepath.WalkDir("../..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(file, "internal/keys") || strings.HasSuffix(file, "_test.go") || filepath.Ext(file) != ".go" {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, _ := strconv.Unquote(lit.Value); named.MatchString(text) {
					t.Errorf("%s has the name %s", file, lit.Value)
				}
			}
			return true
		})
		return nil
	}))
}
