package store

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// replaced returns a text with another piece of it.
func replaced(t *testing.T, text, old, new string) string {
	t.Helper()
	redistest.FatalIf(t, strings.Count(text, old) != 1, "%q is %d times in the script", old, strings.Count(text, old))
	return strings.Replace(text, old, new, 1)
}

// mutant is one way in which the scripts, or the writers, could be wrong.
type mutant struct {
	name     string
	file     string // of the script: commit, room, inherit or leave
	old, new string
	rules    writerRules
	left     bounds
	actions  [][]string // other than one of each of two writers
	deep     bool       // finding it takes seconds
	found    string     // what the explorer has to say
}

// scripts returns the scripts with that fault. All rules of the lock stand in front of each.
func (m mutant) scripts(t *testing.T) scriptSet {
	texts := map[string]string{"commit": commitLua, "acquire": acquireLua, "room": roomLua, "lock": ofLock("lock"), "inherit": ofLock("inherit"), "abandon": ofLock("abandon")}
	if m.file != "" {
		texts[m.file] = replaced(t, texts[m.file], m.old, m.new)
	}
	ofLocks := func(name string) *redis.Script { return redis.NewScript(texts["lock"] + texts[name]) }
	ofRooms := func(name string) *Script {
		script := &Script{texts: make(map[string]*redis.Script)}
		for _, incarnation := range []string{"i0", "later0"} {
			library := strings.ReplaceAll(texts["room"], "<incarnation>", incarnation)
			script.texts[incarnation] = redis.NewScript(texts["lock"] + library + texts[name])
		}
		return script
	}
	return scriptSet{ofRooms("commit"), ofRooms("acquire"), ofLocks("inherit"), ofLocks("abandon")}
}

const (
	freeLua  = `ARGV[4] ~= '' and known and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0` + "\nlocal there"
	heardLua = "return 1"
	onceLua  = "local before = is[3] == ARGV[5]\n"
	heldLua  = "if not ttl and not lock_holds(1, ARGV[3]) then"
	buryLua  = "    lock_bury(at, other)\n"
	heirLua  = "    lock_inherit(3 * (i - 3) / 2 + 1, ARGV[i], string.sub(ARGV[i], 1, -37) .. string.sub(ARGV[i + 1], j, j + 35))\n"
	freedLua = "held, position = release(1, next ~= '' and next, next_ttl ~= '' and next_ttl)"
)

// The explorer finds what is wrong with scripts, or writers, that are.
func TestExplorerFindsFaults(t *testing.T) {
	t.Parallel()
	for _, m := range []mutant{
		{name: "does not ask whether others wait", file: "commit", old: freeLua, new: strings.Replace(freeLua, ", KEYS[2]", "", 1),
			left: bounds{foreign: 1}, found: "waited"},
		{name: "does not ask whether the lock is held", file: "commit", old: freeLua, new: strings.Replace(freeLua, "KEYS[1], ", "", 1),
			left: bounds{foreign: 1}, found: "foreign held the lock"},
		{name: "does not look at the commit id", file: "room", old: "(is[1] or '') == ARGV[at + 1] and ", new: "", found: "version 2 follows version 2"},
		{name: "does not look at the incarnation", file: "room", old: " or is[2] == '<incarnation>'", new: " or true",
			left: bounds{failovers: 1}, found: "an epoch goes on"},
		{name: "does not look whether it came before", file: "commit", old: onceLua, new: "local before = false\n", left: bounds{unanswered: 1}, found: "twice"},
		{name: "knows its commit by the token", file: "commit", old: onceLua,
			new:  "local before = is[3] == ARGV[3]\nARGV[5] = ARGV[3]\n",
			left: bounds{unanswered: 1}, found: "twice"},
		{name: "does not check the token of a hold", file: "commit", old: heldLua, new: "if false then", left: bounds{expiries: 1, foreign: 1}, found: "held the lock"},
		{name: "says that it is written, and another was", file: "commit", old: heardLua, new: "return 0", rules: writerRules{behind: 2, hears: true}, found: "is acknowledged, and is not in the room"},
		{name: "does not release the lock", file: "commit", old: freedLua, new: "", left: bounds{}, found: "holds the lock"},
		{name: "does not let a repeated commit leave", file: "commit", old: "    lock_abandon(1, ARGV[3])", new: "    --", actions: [][]string{{"a"}},
			left: bounds{unanswered: 2, foreign: 1}, found: "holds the lock"},
		{name: "lets a lost hold wait on", file: "commit", old: "    redis.call('ZREM', KEYS[2], ARGV[3])\n", new: "", left: bounds{expiries: 1, foreign: 1}, found: "nothing comes to an end"},
		{name: "lets a lost hold write", file: "commit", old: "    redis.call('ZREM', KEYS[2], ARGV[3])\n", new: "", rules: writerRules{mayLeave: true}, deep: true,
			left: bounds{unanswered: 1, expiries: 2, foreign: 1, giveUps: 1}, found: "a is in the room twice"},
		{name: "does not bury what it repeats", file: "inherit", old: heirLua, new: "", rules: writerRules{mayLeave: true},
			left: bounds{unanswered: 1, foreign: 1, giveUps: 1}, found: "was refused"},
		{name: "does not bury what it gives up", file: "abandon", old: buryLua, new: "", left: bounds{unanswered: 1, foreign: 1, giveUps: 1}, found: "holds the lock"},
		{name: "draws a number twice", file: "lock", old: "if last and last >= number then", new: "if false then", left: bounds{foreign: 1}, found: "the fence went back"},
		{name: "keeps a queue for ever", file: "lock", old: "    redis.call('PEXPIRE', queue, 60000)\n", new: "", left: bounds{foreign: 1}, found: "has no end"},
		{name: "gives the lock to who is buried", file: "lock", old: "elseif redis.call('ZSCORE', queue, token) then -- buried, since nobody waits", new: "elseif false then",
			left: bounds{unanswered: 1, foreign: 1}, found: "holds the lock"},
		{name: "names a hold by its id, and not what it writes", rules: writerRules{maxBatch: 2, idOfHold: true}, actions: grows,
			left: bounds{unanswered: 1, foreign: 1}, found: "is acknowledged, and is not in the room"},
	} {
		t.Run(m.name, func(t *testing.T) {
			if m.deep {
				redistest.Thorough(t)
			}
			c := situation{before: []string{"join m"}, actions: m.actions, rules: m.rules, left: m.left}
			if c.actions == nil {
				c.actions = both
			}
			trace, stats := c.explore(t, m.scripts(t), 1e5)
			t.Logf("%v: %s", stats, trace)
			first, _, _ := strings.Cut(trace, "\n")
			redistest.ErrorIf(t, !strings.Contains(first, m.found), "it says %q, and not %q", first, m.found)
		})
	}
}
