package lab

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed testdata/published.txt
var publishedText string

// path is one way through a discipline.
type path struct {
	discipline, name string

	// before has commands of somebody else, by the number of the caller's command
	// just before which they run.
	before map[int]string

	want  string // the commands that the server must receive
	fails error  // of the caller
}

// readPublished returns the paths of testdata/published.txt, and the pause of each
// discipline.
func readPublished(t *testing.T) (paths []path, pauses map[string]time.Duration) {
	t.Helper()
	pauses = make(map[string]time.Duration)
	discipline := ""
	for line := range strings.Lines(publishedText) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			var pause string
			discipline, pause, _ = strings.Cut(line, " ")
			pauses[discipline], _ = time.ParseDuration(pause)
		default:
			name, commands, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok {
				t.Fatalf("published.txt: %s", line)
			}
			paths = append(paths, newPath(discipline, name, commands))
		}
	}
	return paths, pauses
}

func newPath(discipline, name, commands string) path {
	p := path{discipline: discipline, name: name, before: make(map[int]string)}
	commands, end, _ := strings.Cut(commands, " → ")
	p.fails = map[string]error{"no value": errNoValue, "dies": errDied}[end]
	commands = strings.ReplaceAll(commands, "(work)", "GET list · SET list 李四 王五 张三")
	var want []string
	sent := 0
	for command := range strings.SplitSeq(commands, " · ") {
		others, own, interrupted := strings.Cut(command, "} ")
		if !interrupted {
			own = command
		}
		if !strings.HasPrefix(own, "lua ") {
			sent++
		}
		if interrupted {
			p.before[sent] = strings.TrimPrefix(others, "{")
		}
		want = append(want, own)
	}
	p.want = strings.Join(want, " · ")
	return p
}

// cache reports whether the caller does not join, but wants a value that is not there.
func (p path) cache() bool { return strings.HasPrefix(p.name, "cache") }

// wholeSecond reports whether a time of somebody else's is too short where a second is
// scaled.
func (p path) wholeSecond() bool {
	for _, others := range p.before {
		if strings.HasPrefix(others, "PEXPIRE") {
			return true
		}
	}
	return false
}

// Every discipline is in the table, and the table has no other.
func TestDiscipline_IsPublished(t *testing.T) {
	paths, pauses := readPublished(t)
	for _, d := range disciplines {
		if d != &roomd && !slices.ContainsFunc(paths, func(p path) bool { return p.discipline == d.name }) {
			t.Errorf("%s: no published commands", d.name)
		}
		if (d.lock != nil) != (pauses[d.name] > 0) {
			t.Errorf("%s: the pause is %v", d.name, pauses[d.name])
		}
	}
	for _, p := range paths {
		if named(p.discipline) == nil {
			t.Errorf("%s is no discipline", p.discipline)
		}
	}
}

// named returns the discipline of a name.
func named(name string) *discipline {
	if i := slices.IndexFunc(disciplines, func(d *discipline) bool { return d.name == name }); i >= 0 {
		return disciplines[i]
	}
	return nil
}

// inMilliseconds returns the published commands as Redis must receive them where a second
// is scaled.
func inMilliseconds(commands string, second time.Duration) string {
	words := strings.Fields(commands)
	scale := func(i int, unit time.Duration) {
		n, _ := strconv.ParseInt(words[i], 10, 64)
		words[i] = fmt.Sprint(n * int64(unit) / int64(time.Millisecond))
	}
	for i, word := range words {
		switch word {
		case "EX":
			words[i] = "PX"
			scale(i+1, second)
		case "PX":
			scale(i+1, second/1000)
		case "EXPIRE", "SETEX":
			words[i] = "P" + word
			scale(i+2, second)
		case "TTL":
			words[i] = "PTTL"
		case "<lua_setnx>":
			scale(i+4, second)
		}
	}
	return strings.Join(words, " ")
}
