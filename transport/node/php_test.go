package node

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// A PHP program with the article's lock, a Go program with lockmgr and a node share LockRoom:42. Nobody is ever in
// while another is, and the node commits nothing while PHP holds the lock, also when PHP is killed in the middle of
// a hold.
func TestPHP_OneLock(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	needPHPRedis(t)
	server := redistest.Start(t)
	rdb := server.Client()
	n, log := startNode(t, "--listen", "127.0.0.1:0", "--redis", server.URL(), "--rate", "off")
	c, err := client.Dial(t.Context(), "ws://"+n.Addr()+"/ws", client.Options{User: "李四"})
	redistest.OK(t, err)
	locks, err := lockmgr.New(server.Client(), lockmgr.Options{Prefix: "LockRoom:"})
	redistest.OK(t, err)
	ctx, enough := context.WithCancel(t.Context())
	var others sync.WaitGroup
	var joined atomic.Int64
	others.Go(func() {
		for ctx.Err() == nil {
			_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
			if err == nil {
				_, err = c.Do(t.Context(), protocol.Request{Action: protocol.ActionLeave, Room: "42"})
			}
			if err != nil {
				t.Errorf("the player: %v", err)
				return
			}
			joined.Add(1)
		}
	})
	others.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			lock, err := locks.Acquire(t.Context(), "42")
			if err != nil {
				t.Errorf("lockmgr: %v", err)
				return
			}
			work(t, rdb, "go", time.Since(began))
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("lockmgr lost a hold: %v", err)
			}
		}
	})

	php := make(map[string]*exec.Cmd)
	begin := func(who string) { php[who] = startPHP(t, server, who) }
	begin("php0")
	begin("php1")
	killed := make(map[string]bool)
	for i := range 3 {
		victim := fmt.Sprint("php", i)
		redistest.Until(t, victim+" is in", func() bool { return strings.HasPrefix(last(t, rdb), "in "+victim+" ") })
		redistest.OK(t, php[victim].Process.Kill())
		_ = php[victim].Wait()
		killed[victim] = true
		begin(fmt.Sprint("php", i+2))
		redistest.Until(t, "all go on", func() bool {
			h, _ := history(t, rdb)
			return h.holds("go") >= 50*(i+1) && h.holds(fmt.Sprint("php", i+1)) >= 50*(i+1)
		})
	}
	enough()
	others.Wait()
	redistest.OK(t, rdb.Set(t.Context(), "Stop:42", "1", 0).Err())
	for who, cmd := range php {
		if err := cmd.Wait(); err != nil && !killed[who] {
			t.Errorf("%s: %v", who, err)
		}
	}
	locks.Close()
	c.Close()
	log() // ends the node
	h, events := history(t, rdb)
	if wrong := intruders(events, killed); wrong != "" {
		t.Error(wrong)
	}
	for _, who := range h.names() {
		waits := h[who]
		slices.Sort(waits)
		t.Logf("%-5s %5d holds, waited %v in the middle, %v at most", who, len(waits), waits[len(waits)/2],
			waits[len(waits)-1])
	}
	t.Logf("the node served %d joins and leaves", 2*joined.Load())
	redistest.ErrorIf(t, joined.Load() < 50, "the node is starved")
}

// needPHPRedis skips a test, or fails it in CI, without PHP and phpredis.
func needPHPRedis(tb testing.TB) {
	tb.Helper()
	redistest.Need(tb, "php")
	out, err := exec.CommandContext(tb.Context(), "php", "-r", "echo class_exists('Redis') ? 'yes' : 'no';").Output()
	redistest.OK(tb, err)
	if string(out) != "yes" {
		redistest.Need(tb, "phpredis") // no program has that name
	}
}

// startPHP starts a program that knows only the article's lock, and ends when Stop:42 is there.
func startPHP(tb testing.TB, server *redistest.Server, who string) *exec.Cmd {
	tb.Helper()
	_, port, _ := strings.Cut(server.Addr(), ":")
	cmd := exec.CommandContext(tb.Context(), "php", "testdata/article.php", port, "42", who)
	redistest.OK(tb, cmd.Start())
	return cmd
}

// work is what the PHP program does under the lock.
func work(tb testing.TB, rdb *redis.Client, who string, waited time.Duration) {
	ctx := tb.Context()
	count, _ := rdb.Get(ctx, "Shared:42").Int()
	version, _ := rdb.HGet(ctx, "Room:42:Meta", "version").Int()
	rdb.RPush(ctx, "Trace:42", fmt.Sprintf("in %s %d %d %d", who, count, version, waited.Nanoseconds()))
	_ = pause.For(ctx, time.Millisecond)
	rdb.Set(ctx, "Shared:42", count+1, 0)
	version, _ = rdb.HGet(ctx, "Room:42:Meta", "version").Int()
	rdb.RPush(ctx, "Trace:42", fmt.Sprintf("out %s %d %d 0", who, count+1, version))
}

// entry is a line of the trace.
type entry struct {
	in                     bool
	who                    string
	count, version, waited int64
}

func last(tb testing.TB, rdb *redis.Client) string {
	return rdb.LIndex(tb.Context(), "Trace:42", -1).Val()
}

// waits are how long each had to wait, for each hold.
type waits map[string][]time.Duration

func (w waits) holds(who string) int { return len(w[who]) }

func (w waits) names() (names []string) {
	for who := range w {
		names = append(names, who)
	}
	slices.Sort(names)
	return names
}

func history(tb testing.TB, rdb *redis.Client) (waits, []entry) {
	tb.Helper()
	w, entries := make(waits), []entry(nil)
	lines, err := rdb.LRange(context.WithoutCancel(tb.Context()), "Trace:42", 0, -1).Result()
	redistest.OK(tb, err)
	for _, line := range lines {
		words := strings.Fields(line)
		e := entry{in: words[0] == "in", who: words[1]}
		for i, to := range []*int64{&e.count, &e.version, &e.waited} {
			*to, err = strconv.ParseInt(words[i+2], 10, 64)
			redistest.OK(tb, err)
		}
		if entries = append(entries, e); e.in {
			w[e.who] = append(w[e.who], time.Duration(e.waited))
		}
	}
	return w, entries
}

// intruders says who was in while another was, or "".
func intruders(entries []entry, killed map[string]bool) string {
	var inside entry
	var count int64
	for i, e := range entries {
		switch {
		case e.in && inside.who != "" && !killed[inside.who]:
			return fmt.Sprintf("entry %d: %s comes in while %s is", i, e.who, inside.who)
		case e.in && e.count != count && !(killed[inside.who] && e.count == count+1):
			return fmt.Sprintf("entry %d: %s finds %d, and %d was written", i, e.who, e.count, count)
		case e.in:
			inside = e
		case e.who != inside.who:
			return fmt.Sprintf("entry %d: %s goes out while %q is in", i, e.who, inside.who)
		case e.version != inside.version:
			return fmt.Sprintf("entry %d: the node has written under the lock of %s", i, e.who)
		default:
			inside, count = entry{}, e.count
		}
	}
	return ""
}
