package lockmgr

import (
	"fmt"
	"strings"
	"testing"
)

// A script has the rules that it uses, each once, each behind those that it uses itself.
func TestScriptsHaveTheRulesTheyUse(t *testing.T) {
	if len(rules) < 8 {
		t.Fatalf("%d rules were found in lock.lua", len(rules))
	}
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
			if used != r.name && defined(before, used) == 0 {
				t.Errorf("%s uses %s, which does not stand before it", r.name, used)
			}
		}
	}
	if text := withRules("return 1"); text != "return 1" {
		t.Errorf("a script without rules became %q", text)
	}
	if got := len(strings.Split(strings.TrimSpace(luaFile("lock")), "\nend\n")); got != len(rules) {
		t.Errorf("lock.lua has %d functions, %d were found", got, len(rules))
	}
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

// Redis keeps a queue long enough for the slowest poll.
func TestAQueueOutlivesPolls(t *testing.T) {
	if !strings.Contains(luaFile("lock"), fmt.Sprintf("'PEXPIRE', queue, %d)", keepQueue.Milliseconds())) || 4*maxPoll > keepQueue {
		t.Errorf("lock.lua does not keep a queue for %v, or three polls of %v are longer", keepQueue, maxPoll)
	}
}
