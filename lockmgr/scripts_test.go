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

// Redis keeps a queue long enough for the slowest poll.
func TestAQueueOutlivesPolls(t *testing.T) {
	if !strings.Contains(luaFile("lock"), fmt.Sprintf("'PEXPIRE', queue, %d)", keepQueue.Milliseconds())) || 4*maxPoll > keepQueue {
		t.Errorf("lock.lua does not keep a queue for %v, or three polls of %v are longer", keepQueue, maxPoll)
	}
}
