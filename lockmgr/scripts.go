package lockmgr

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// lockLua is the text of the functions by which scripts take, check, extend and give back
// a lock: each rule of the lock, once.
//
//go:embed lua/lock.lua
var lockLua string

// NewScript returns a script that begins with those functions of lua/lock.lua that body
// uses: Redis makes every function anew each time a script runs. Use it to check the token
// in the same step as a write, and run it with [Manager.Run]:
//
//	guarded := lockmgr.NewScript(`
//	  if not lock_holds(1, ARGV[3]) then return 0 end
//	  redis.call('SET', KEYS[4], ARGV[4])
//	  lock_give(1)
//	  return 1`)
//
//	locks.Run(ctx, guarded, name, []string{"score"}, lock.Token(), 21)
//
// A script that gives the lock back this way ends the hold: call [Lock.Given]
// instead of Release. One that finds the token gone calls [Lock.WriteRefused].
//
// On Redis Cluster the lock's keys and the guarded keys must share a hash tag:
// [Manager.Keys] puts {name} into the lock's.
//
// Libraries are texts with further functions, of which the script gets those that it uses. Such a
// function begins with "local function" and ends with the first "end" that is not indented.
func NewScript(body string, libraries ...string) *redis.Script {
	return redis.NewScript(withRules(body, libraries...))
}

// rule is one function of lock.lua.
type rule struct{ name, text string }

var rules = parseRules(lockLua)

// parseRules splits the text of lock.lua into its functions, in their order, in which
// each uses only earlier ones. A function ends with the first "end" that is not indented.
func parseRules(text string) (all []rule) {
	for _, m := range regexp.MustCompile(`(?ms)^local function (\w+)\(.*?^end\n`).FindAllStringSubmatch(text, -1) {
		all = append(all, rule{m[1], m[0]})
	}
	return all
}

var ruleName = regexp.MustCompile(`\b[a-z]+_\w+`)

// withRules returns the text of a script of [NewScript].
func withRules(body string, libraries ...string) string {
	used := ruleName.FindAllString(body, -1)
	var front []string
	all := slices.Clip(rules)
	for _, text := range libraries {
		all = append(all, parseRules(text)...)
	}
	for _, r := range slices.Backward(all) {
		if slices.Contains(used, r.name) {
			used = append(used, ruleName.FindAllString(r.text, -1)...)
			front = append(front, r.text)
		}
	}
	slices.Reverse(front)
	return strings.Join(front, "") + body
}

var (
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/all.lua
	allLua string
	//go:embed lua/try.lua
	tryLua string
	//go:embed lua/extend.lua
	extendLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/pass.lua
	passLua string
	//go:embed lua/leave.lua
	leaveLua string
)

var (
	acquireScript = NewScript(acquireLua)
	allScript     = NewScript(allLua)
	tryScript     = NewScript(tryLua)
	extendScript  = NewScript(extendLua)
	releaseScript = NewScript(releaseLua)
	passScript    = NewScript(passLua)
	leaveScript   = NewScript(leaveLua)
)
