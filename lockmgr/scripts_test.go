package lockmgr

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// A script has the rules that it uses, each once, each behind those that it uses itself.
func TestScriptsHaveTheRulesTheyUse(t *testing.T) {
	redistest.FatalIf(t, len(rules) < 8, "%d rules were found in lock.lua", len(rules))
	defined := func(text, name string) int { return strings.Count(text, "local function "+name+"(") }
	for _, r := range rules {
		text := withRules(r.name + "()")
		for _, other := range rules {
			uses := strings.Contains(text, other.name+"(")
			if n := defined(text, other.name); uses && n != 1 || !uses && n != 0 {
				t.Errorf("%s: %s stands there %d times", r.name, other.name, n)
			}
		}
		before, own, _ := strings.Cut(text, "local function "+r.name+"(")
		for _, used := range ruleName.FindAllString(own, -1) {
			redistest.ErrorIf(t, strings.HasPrefix(used, "lock_") && used != r.name && defined(before, used) == 0,
				"%s uses %s, which does not stand before it", r.name, used)
		}
	}
	redistest.Equal(t, "a script without rules became", withRules("return 1"), "return 1")
	got := len(strings.Split(strings.TrimSpace(luaFile("lock")), "\nend\n"))
	redistest.ErrorIf(t, got != len(rules), "lock.lua has %d functions, %d were found", got, len(rules))
}

// Rules that a script seldom needs stand at its mark, and those that it needs before that in front.
func TestScripts_RulesAtTheMark(t *testing.T) {
	text := withRules("if room_quiet(1) then return lock_holds(1) end"+lockPlace+"lock_release(1) return lock_holds(1), room_last(1)",
		"local function room_quiet(at)\n  return lock_waits(at)\nend\nlocal function room_last(at)\n  return lock_number(at)\nend\n")
	front, rest, _ := strings.Cut(text, "\nif room_quiet") // the body begins
	for name, inFront := range map[string]bool{"room_quiet": true, "lock_waits": true, "lock_holds": true, "room_last": true, "lock_number": true, "lock_release": false, "lock_queue": false} {
		defined := "local function " + name + "("
		if strings.Count(text, defined) != 1 || strings.Contains(front, defined) != inFront || strings.Contains(rest, defined) == inFront {
			t.Errorf("%s stands in front %d times, and %d times in the rest", name, strings.Count(front, defined), strings.Count(rest, defined))
		}
	}
}

// A script gets each function of a library that it uses, however that is written, or the library is refused.
func TestScripts_NoFunctionIsDropped(t *testing.T) {
	for _, library := range []string{
		"local function NAME()\n  return 1\nend\n",
		"local function NAME()\n  return 1\nend",
		"local function NAME()\n  return 1\nend -- NAME\n",
		"-- says one\r\nlocal function NAME()\r\n  return 1\r\nend\r\n",
		"local function NAME ()\n  return 1\nend \n",
	} {
		for _, name := range []string{"room_last", "last", "roomLast", "Last", "last2", "room2_last", "_last"} {
			text := withRules("return "+name+"()", strings.ReplaceAll(library, "NAME", name))
			redistest.ErrorIf(t, !strings.Contains(text, "local function "+name) || strings.Contains(text, "\r"),
				"%q: %s became %q", library, name, text)
		}
	}
	for library, names := range map[string]string{
		"local function one() return 1 end\n":                                   "one",
		"local function one() return 1 end\nlocal function two()\nend\n":        "one",
		"local one = function()\n  return 1\nend\n":                             "local one",
		"function one()\n  return 1\nend\n":                                     "function one",
		"local limit = 3\nlocal function one()\n  return limit\nend\n":          "local limit",
		"local function one()\nif KEYS[1] then\nreturn 1\nend\nreturn 2\nend\n": "return 2",
	} {
		said := refused(func() { NewScript("return one()", library) })
		redistest.ErrorIf(t, !strings.Contains(said, names), "%q: %q", library, said)
	}
}

// refused returns what f panics with.
func refused(f func()) (said string) {
	defer func() { said = fmt.Sprint(recover()) }()
	f()
	return ""
}

// Redis keeps a queue long enough for the slowest poll.
func TestAQueueOutlivesPolls(t *testing.T) {
	if !strings.Contains(luaFile("lock"), fmt.Sprintf("'PEXPIRE', queue, %d)", keepQueue.Milliseconds())) || 4*maxPoll > keepQueue {
		t.Errorf("lock.lua does not keep a queue for %v, or three polls of %v are longer", keepQueue, maxPoll)
	}
}

// When the clock steps back nobody overtakes the queue, and fences still grow.
func TestAClockThatStepsBack(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		first := mustAcquire(t, m, "a")
		future := first.Fence() + int64(time.Hour/time.Microsecond)
		client.Set(t.Context(), "Lock:a:Fence", future, time.Minute) // drawn before the step
		for i, token := range []string{"came first", "came second"} {
			_, ahead := askAs(t, m, token)
			redistest.ErrorIf(t, ahead != int64(i), "%s: %d ahead", token, ahead)
		}
		order := client.ZRange(t.Context(), "Lock:a:Queue", 0, -1).Val()
		redistest.ErrorIf(t, !slices.Equal(order, []string{"came first", "came second"}), "the queue is %v", order)
		client.Del(t.Context(), "Lock:a:Queue")
		mustRelease(t, first)
		next := mustAcquire(t, m, "a")
		redistest.ErrorIf(t, next.Fence() <= future, "fence %d after %d", next.Fence(), future)
		mustRelease(t, next)
	})
}

// However a hold begins, its fence is larger than the last one, even if Redis has lost the
// last number or knows only an older one.
func TestFencesGrowOverLoss(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		m := newManager(t, client, Options{})
		last := int64(0)
		grows := func(how string, fence int64) {
			t.Helper()
			redistest.ErrorIf(t, fence <= last, "%s: fence %d after %d", how, fence, last)
			last = fence
			ttl := client.PTTL(t.Context(), "Lock:a:Fence").Val()
			redistest.ErrorIf(t, ttl <= 0, "%s: the last fence stays for ever", how)
			client.Set(t.Context(), "Lock:a:Fence", last-99, 0) // an old state
		}
		for _, lose := range []bool{false, true} {
			lock := mustAcquire(t, m, "a")
			grows("acquire", lock.Fence())
			next := acquiring(t, m, "a")
			awaitLine(t, m, "a", 1)
			mustRelease(t, lock)
			lock = redistest.Receive(t, next, "the waiter to get the lock")
			grows("passed on", lock.Fence())
			mustRelease(t, lock)
			if lose {
				client.Del(t.Context(), "Lock:a:Fence")
			}
			lock = mustTry(t, m, "a")
			grows("try", lock.Fence())
			mustRelease(t, lock)
			all := mustAll(t, m, "a", "b")
			grows("all", all.Lock("a").Fence())
			redistest.OK(t, all.Release(t.Context()))
			_, lock, err := m.AcquireOrWait(t.Context(), "a", WaitOptions{})
			redistest.OK(t, err)
			grows("or wait", lock.Fence())
			mustRelease(t, lock)
		}
	})
}

// A token that inherits a hold has it for what is left of its TTL: it has not begun anew, nor is it without an end.
func TestInherit_AHoldKeepsItsEnd(t *testing.T) {
	client := redistest.Start(t).Client()
	m := newManager(t, client, Options{})
	earlier, heir := m.names.newToken("a"), m.names.newToken("a")
	redistest.OK(t, client.Set(t.Context(), m.Key("a"), earlier, time.Minute).Err())
	redistest.OK(t, m.Run(t.Context(), inheritScript, "a", nil, heir, earlier[len("a:"):]).Err())
	holder, left := client.Get(t.Context(), m.Key("a")).Val(), client.PTTL(t.Context(), m.Key("a")).Val()
	redistest.ErrorIf(t, holder != heir || left <= 0 || left > time.Minute,
		"%q holds the lock for %v; want %q for what is left of a minute", holder, left, heir)
}

// A token that inherits a position waits at the better one of both, and the earlier token waits no more.
func TestInherit_ThePositionIsTheBetterOne(t *testing.T) {
	client := redistest.Start(t).Client()
	m := newManager(t, client, Options{})
	for name, at := range map[string]struct{ earlier, heir, want float64 }{
		"no position": {1, 0, 1}, "a later one": {1, 2, 1}, "a better one": {2, 1, 1},
	} {
		earlier, heir, queue := m.names.newToken(name), m.names.newToken(name), m.Keys(name)[1]
		redistest.OK(t, client.ZAdd(t.Context(), queue, redis.Z{Score: at.earlier, Member: earlier}).Err())
		if at.heir > 0 {
			redistest.OK(t, client.ZAdd(t.Context(), queue, redis.Z{Score: at.heir, Member: heir}).Err())
		}
		redistest.OK(t, m.Run(t.Context(), inheritScript, name, nil, heir, earlier[len(name)+1:]).Err())
		got := client.ZScore(t.Context(), queue, heir).Val()
		redistest.ErrorIf(t, got != at.want, "%s: the heir waits at %v, want %v", name, got, at.want)
		if got := client.ZScore(t.Context(), queue, earlier).Val(); got < 1e18 {
			t.Errorf("%s: the earlier token waits at %v, want it buried", name, got)
		}
	}
}
