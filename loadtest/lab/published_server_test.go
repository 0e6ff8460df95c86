package lab

import (
	"bufio"
	"context"
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

// Each discipline sends exactly the published commands, in their order, with their values
// and times: as published where a second is not scaled, and otherwise in milliseconds.
func TestDiscipline_SendsWhatIsPublished(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	paths, _ := readPublished(t)
	for _, p := range paths {
		for _, second := range []time.Duration{time.Second, defaultSecond} {
			if p.wholeSecond() && second != time.Second {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/%v", p.discipline, p.name, second), func(t *testing.T) {
				want := p.want
				if second != time.Second {
					want = inMilliseconds(want, second)
				}
				if got := p.walk(t, server, second); got != want {
					t.Errorf("the server saw\n  %s\npublished is\n  %s", got, want)
				}
			})
		}
	}
}

// walk lets one caller join, and returns what the server received from it.
func (p path) walk(t *testing.T, server *redistest.Server, second time.Duration) string {
	t.Helper()
	w := newWalk(t, p, server, second)
	w.others(`SET list 李四 王五`)
	ask := w.c.ask
	if p.cache() {
		ask = w.askCache
	}
	err := errDied // unless it returns
	var caller sync.WaitGroup
	caller.Go(func() { err = ask(t.Context()) })
	caller.Wait()
	if !errors.Is(err, p.fails) {
		t.Errorf("it ends with %v, want %v", err, p.fails)
	}
	return w.seen(t)
}

// walk is a caller on a path, and everybody around it.
type walk struct {
	c       *caller
	rest    *redis.Client // of everybody else
	monitor *bufio.Scanner
	addr    string // of everybody else
	entry   *entry // of the cache
	names   map[string]string
	begun   int64 // in published ms
}

func newWalk(t *testing.T, p path, server *redistest.Server, second time.Duration) *walk {
	t.Helper()
	w := &walk{rest: server.Client(), names: make(map[string]string)}
	w.rest.Options().PoolSize = 1
	proxy := redistest.StartProxy(t, server.Addr())
	l := &lab{cfg: Config{}.withDefaults(), redis: proxy.Client(), run: strconv.FormatInt(time.Now().UnixNano(), 36), seed: 1}
	x := newCell(l, named(p.discipline), faults[0], second)
	process, err := newProcess(x, "1", nil)
	redistest.OK(t, err)
	t.Cleanup(process.stop)
	w.c = x.callerIn(process, victimUser, false)
	w.c.asked = time.Now()
	w.entry = newEntry(x, scene{keeps: strings.Contains(p.name, "old value")})
	w.entry.takes = 0
	w.begun = w.c.nowMillis()
	w.listen(t, server)

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
	return w
}

// askCache lets the caller ask for a value that is not there.
func (w *walk) askCache(ctx context.Context) error {
	c := w.c
	value, err := w.entry.get(ctx, c)
	if err == nil && value != newValue && value != oldValue {
		err = fmt.Errorf("the value is %q", value)
	}
	return err
}

// listen starts to record all commands that the server runs.
func (w *walk) listen(t *testing.T, server *redistest.Server) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	redistest.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	w.monitor = bufio.NewScanner(conn)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || !w.monitor.Scan() || w.monitor.Text() != "+OK" {
		t.Fatalf("MONITOR: %v, %q", err, w.monitor.Text())
	}
	info, err := w.rest.ClientInfo(t.Context()).Result()
	redistest.OK(t, err)
	w.addr = info.Addr
}

// others sends a command of somebody else.
func (w *walk) others(command string) {
	x := w.c.x
	words := strings.Fields(command)
	var args []any
	for _, word := range words {
		switch word {
		case "lock":
			args = append(args, x.lockKey)
		case "locks":
			args = append(args, x.hashKey)
		case "value":
			args = append(args, w.entry.value)
		case "list":
			args = append(args, x.listKey)
		case "later":
			args = append(args, fmt.Sprintf("%d:1", w.c.now()+1000))
		case "past":
			args = append(args, fmt.Sprintf("%d:1", w.c.now()-1))
		case "later-ms":
			args = append(args, w.c.nowMillis()+1_000_000)
		case "past-ms":
			args = append(args, w.begun-1)
		case "begun+1000":
			args = append(args, w.begun+1000)
		default:
			args = append(args, word)
		}
	}
	if i := slices.Index(args, any("old")); words[0] == "SET" && i == 1 {
		args[i] = w.entry.old
	}
	if words[0] == "SET" && words[1] == "list" && words[2] != phpArray {
		text, _ := json.Marshal(words[2:])
		args = []any{words[0], x.listKey, text}
	}
	if err := w.rest.Do(context.Background(), args...).Err(); err != nil {
		w.c.x.fail(err)
	}
}

var (
	monitored = regexp.MustCompile(`^\+[\d.]+ \[\d+ (\S+)\] (.*)$`)
	quoted    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// seen returns the caller's commands that the server ran, in the words of a path.
func (w *walk) seen(t *testing.T) string {
	t.Helper()
	if err := w.c.x.failure; err != nil {
		t.Error(err)
	}
	end := "end of " + w.c.x.id
	redistest.OK(t, w.rest.Echo(t.Context(), end).Err())
	var seen []string
	for w.monitor.Scan() {
		line := monitored.FindStringSubmatch(w.monitor.Text())
		if line == nil {
			t.Fatalf("the server says %q", w.monitor.Text())
		}
		var args []string
		for _, arg := range quoted.FindAllString(line[2], -1) {
			text, err := strconv.Unquote(arg)
			if err != nil {
				t.Fatalf("%s: %v", arg, err)
			}
			args = append(args, text)
		}
		switch {
		case slices.Contains(args, end):
			return strings.Join(seen, " · ")
		case line[1] == w.addr, strings.EqualFold(args[0], "HELLO"), strings.EqualFold(args[0], "CLIENT"):
			continue
		}
		for i, arg := range args {
			isTime := i > 0 && (args[i-1] == "EX" || args[i-1] == "PX") || i == 2 && strings.HasSuffix(args[0], "SETEX")
			if !isTime {
				args[i] = w.name(arg)
				if arg == "" {
					args[i] = `""`
				}
			}
		}
		args[0] = strings.ToUpper(args[0]) // go-redis' own MULTI and EXEC are not
		if line[1] == "lua" {
			args = append([]string{"lua"}, args...)
		}
		seen = append(seen, strings.Join(args, " "))
	}
	t.Fatalf("the server sent only %q: %v", seen, w.monitor.Err())
	return ""
}

// name returns the word that a path has for an argument.
func (w *walk) name(arg string) string {
	x := w.c.x
	scripts := map[string]string{
		luaSetnxLua: "<lua_setnx>", strings.ReplaceAll(luaSetnxLua, "'EXPIRE'", "'PEXPIRE'"): "<lua_setnx>",
		compareDelLua: "<compare_del>", delIfNotAfterLua: "<del_if_not_after>", delIfPastLua: "<del_if_past>",
	}
	var users []string
	number, err := strconv.ParseInt(arg, 10, 64)
	end, random, isEnd := strings.Cut(arg, ":")
	uniqid, isCards := strings.CutPrefix(strings.Trim(arg, `"`), x.id)
	switch {
	case arg == x.lockKey:
		return "lock"
	case arg == x.hashKey:
		return "locks"
	case arg == x.listKey:
		return "list"
	case arg == w.entry.value:
		return "value"
	case arg == w.entry.old:
		return "old"
	case scripts[arg] != "":
		return scripts[arg]
	case json.Unmarshal([]byte(arg), &users) == nil:
		return strings.Join(users, " ")
	case isCards && regexp.MustCompile(`^[0-9a-f]{13}$`).MatchString(uniqid):
		return strings.Replace(arg, x.id+uniqid, "42uniqid-"+w.letter(uniqid), 1)
	case isEnd && w.isNow(end, 2, 1000) && regexp.MustCompile(`^[1-9]\d{6}$`).MatchString(random):
		return "now+2:" + w.letter(random)
	case w.isNow(arg, 1000, 1):
		return "now-ms+1000"
	case w.isNow(arg, 0, 1):
		return "now-ms"
	case err == nil && (number > 1000 || number < 0): // an unsigned one of 64 bits may not fit
		return "N-" + w.letter(arg)
	case err != nil && regexp.MustCompile(`^\d+$`).MatchString(arg):
		return "N-" + w.letter(arg)
	}
	return arg
}

// isNow reports whether a number is the caller's clock plus something, in units of
// so many ms, at a moment of the walk.
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
