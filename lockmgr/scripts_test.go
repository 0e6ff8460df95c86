package lockmgr

import (
	"fmt"
	"roomd/lockmgr/redistest"
	"strings"
	"testing"
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
		"local function room_quiet(at)\n  return lock_free(at)\nend\nlocal function room_last(at)\n  return lock_number(at)\nend\n")
	front, rest, _ := strings.Cut(text, "\nif room_quiet") // the body begins
	for name, inFront := range map[string]bool{"room_quiet": true, "lock_free": true, "lock_holds": true, "room_last": true, "lock_number": true, "lock_release": false, "lock_queue": false} {
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
