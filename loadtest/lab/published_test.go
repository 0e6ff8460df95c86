package lab

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

//go:embed testdata/published.txt
var publishedText string

// path is one way through a discipline.
type path struct {
	discipline, name string
	before           map[int]string // commands of somebody else, by the number of the caller's command just before which they run
	want             string         // the commands that the server must receive
	fails            error          // of the caller
}

// readPublished returns the paths of testdata/published.txt, and the pause of each discipline.
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

// inMilliseconds returns the published commands as Redis must receive them where a second is scaled.
func inMilliseconds(commands string, second time.Duration) string {
	words := strings.Fields(commands)
	scale := func(i int, unit time.Duration) {
		n, _ := strconv.ParseInt(words[i], 10, 64)
		words[i] = fmt.Sprint(n * int64(unit) / int64(time.Millisecond))
	}
	for i, word := range words {
		switch word {
		case "PX":
			scale(i+1, second/1000)
		case "EX":
			scale(i+1, second)
		case "EXPIRE", "SETEX":
			scale(i+2, second)
		case "<lua_setnx>":
			scale(i+4, second)
		}
		if inMillis[word] != "" {
			words[i] = inMillis[word]
		}
	}
	return strings.Join(words, " ")
}

// Each discipline sends exactly the published commands, in their order, with their values and times: as published where a
// second is not scaled, and otherwise in milliseconds.
func TestDiscipline_SendsWhatIsPublished(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	paths, _ := readPublished(t)
	for _, p := range paths {
		for _, second := range []time.Duration{time.Second, LeastSecond} {
			want := p.want
			if second != time.Second {
				want = inMilliseconds(want, second)
				if strings.Contains(fmt.Sprint(p.before), "PEXPIRE") { // somebody else's time is too short for a scaled second
					continue
				}
			}
			t.Run(fmt.Sprintf("%s/%s/%v", p.discipline, p.name, second), func(t *testing.T) {
				if got := p.walk(t, server, second); got != want {
					t.Errorf("the server saw\n  %s\npublished is\n  %s", got, want)
				}
			})
		}
	}
}

// walk is a caller on a path, and everybody around it.
type walk struct {
	c     *caller
	rest  *redis.Client // of everybody else
	entry *entry        // of the cache
	names map[string]string
	begun int64 // in published ms
}

// walk lets one caller join, or want a value that is not there, and returns what the server received from it.
func (p path) walk(t *testing.T, server *redistest.Server, second time.Duration) string {
	t.Helper()
	w := &walk{rest: server.Client(), names: make(map[string]string)}
	w.rest.Options().PoolSize = 1
	proxy := redistest.StartProxy(t, server.Addr())
	l := &lab{redis: proxy.Client(), run: strconv.FormatInt(time.Now().UnixNano(), 36)}
	x := newCell(l, named(p.discipline), faults[0], second)
	process, err := newProcess(x, "1", nil)
	redistest.OK(t, err)
	t.Cleanup(process.stop)
	w.c = &caller{process: process, user: victimUser, asked: time.Now()}
	w.entry = (&entry{keeps: strings.Contains(p.name, "old value")}).in(x)
	w.entry.takes = 0
	w.begun = w.c.nowMillis()
	monitor := monitor(t, server)
	info, err := w.rest.ClientInfo(t.Context()).Result()
	redistest.OK(t, err)
	sent := 0
	proxy.OnRequest(func(args []string) redistest.Action {
		if args[0] != "HELLO" && args[0] != "CLIENT" {
			sent++
			if does := p.before[sent]; does != "" {
				w.others(does)
			}
		}
		return redistest.Pass
	})
	w.others(`SET list 李四 王五`)
	err = errDied // unless it returns
	var caller sync.WaitGroup
	caller.Go(func() {
		if strings.HasPrefix(p.name, "cache") {
			var value string
			if value, err = w.entry.get(t.Context(), w.c); err == nil && value != newValue && value != oldValue {
				t.Errorf("the value is %q", value)
			}
		} else {
			err = w.c.ask(t.Context())
		}
	})
	caller.Wait()
	if !errors.Is(err, p.fails) {
		t.Errorf("it ends with %v, want %v", err, p.fails)
	}
	redistest.OK(t, x.failure)
	end := "end of " + x.id
	redistest.OK(t, w.rest.Echo(t.Context(), end).Err())
	return w.seen(t, monitor, info.Addr, end)
}

// monitor returns all commands that the server runs from now on.
func monitor(t *testing.T, server *redistest.Server) *bufio.Scanner {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	redistest.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	lines := bufio.NewScanner(conn)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR: %v, %q", err, lines.Text())
	}
	return lines
}

// others sends a command of somebody else.
func (w *walk) others(command string) {
	x := w.c.x
	words := map[string]any{
		"lock": x.lockKey, "locks": x.hashKey, "value": w.entry.value, "list": x.listKey, "begun+1000": w.begun + 1000,
		"later": fmt.Sprintf("%d:1", w.c.now()+1000), "past": fmt.Sprintf("%d:1", w.c.now()-1),
		"later-ms": w.c.nowMillis() + 1_000_000, "past-ms": w.begun - 1,
	}
	var args []any
	fields := strings.Fields(command)
	for _, field := range fields {
		args = append(args, cmp.Or(words[field], any(field)))
	}
	switch set, to := fields[0] == "SET", fields[1]; {
	case set && to == "old":
		args[1] = w.entry.old
	case set && to == "list" && fields[2] != phpArray:
		text, _ := json.Marshal(fields[2:])
		args = []any{"SET", x.listKey, text}
	}
	if err := w.rest.Do(context.Background(), args...).Err(); err != nil {
		x.fail(err)
	}
}

var (
	monitored = regexp.MustCompile(`^\+[\d.]+ \[\d+ (\S+)\] (.*)$`)
	quoted    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	uniqid    = regexp.MustCompile(`^[0-9a-f]{13}$`)
	digits    = regexp.MustCompile(`^-?\d+$`)
)

// seen returns the commands up to end that the server ran for others than rest, in the words of a path.
func (w *walk) seen(t *testing.T, lines *bufio.Scanner, rest, end string) string {
	t.Helper()
	var seen []string
	for lines.Scan() {
		line := monitored.FindStringSubmatch(lines.Text())
		if line == nil {
			t.Fatalf("the server says %q", lines.Text())
		}
		var args []string
		for _, arg := range quoted.FindAllString(line[2], -1) {
			text, err := strconv.Unquote(arg)
			redistest.OK(t, err)
			args = append(args, text)
		}
		switch {
		case slices.Contains(args, end):
			return strings.Join(seen, " · ")
		case line[1] == rest, strings.EqualFold(args[0], "HELLO"), strings.EqualFold(args[0], "CLIENT"):
			continue
		}
		for i, arg := range args {
			if isTime := i > 0 && (args[i-1] == "EX" || args[i-1] == "PX") || i == 2 && strings.HasSuffix(args[0], "SETEX"); !isTime {
				args[i] = cmp.Or(w.name(arg), `""`)
			}
		}
		args[0] = strings.ToUpper(args[0]) // go-redis' own MULTI and EXEC are not
		if line[1] == "lua" {
			args = append([]string{"lua"}, args...)
		}
		seen = append(seen, strings.Join(args, " "))
	}
	t.Fatalf("the server sent only %q: %v", seen, lines.Err())
	return ""
}

// name returns the word that a path has for an argument.
func (w *walk) name(arg string) string {
	x := w.c.x
	exactly := map[string]string{
		x.lockKey: "lock", x.hashKey: "locks", x.listKey: "list", w.entry.value: "value", w.entry.old: "old",
	}
	for _, name := range []string{"lua_setnx", "compare_del", "del_if_not_after", "del_if_past"} {
		script, _ := scripts.ReadFile("lua/" + name + ".lua")
		exactly[strings.ReplaceAll(string(script), "'EXPIRE'", "'PEXPIRE'")] = "<" + name + ">"
	}
	var users []string
	number, err := strconv.ParseInt(arg, 10, 64)
	end, random, isEnd := strings.Cut(arg, ":")
	unique, isCards := strings.CutPrefix(strings.Trim(arg, `"`), x.id)
	switch {
	case exactly[arg] != "":
		return exactly[arg]
	case exactly[strings.ReplaceAll(arg, "'EXPIRE'", "'PEXPIRE'")] != "":
		return "<lua_setnx>"
	case json.Unmarshal([]byte(arg), &users) == nil:
		return strings.Join(users, " ")
	case isCards && uniqid.MatchString(unique):
		return strings.Replace(arg, x.id+unique, "42uniqid-"+w.letter(unique), 1)
	case isEnd && w.isNow(end, 2, 1000) && len(random) == 7 && digits.MatchString(random) && random[0] != '0':
		return "now+2:" + w.letter(random)
	case w.isNow(arg, 1000, 1):
		return "now-ms+1000"
	case w.isNow(arg, 0, 1):
		return "now-ms"
	case digits.MatchString(arg) && (err != nil || number > 1000 || number < 0 || arg == w.c.value): // an unsigned one of 64 bits may not fit
		return "N-" + w.letter(arg)
	}
	return arg
}

// isNow reports whether a number is the caller's clock plus something, in units of so many ms, at a moment of the walk.
func (w *walk) isNow(text string, plus, unit int64) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n >= w.begun/unit+plus && n <= w.c.nowMillis()/unit+plus
}

// letter names a random value: a is the first that was sent, b the second.
func (w *walk) letter(value string) string {
	if w.names[value] == "" {
		w.names[value] = string(rune('a' + len(w.names)))
	}
	return w.names[value]
}
