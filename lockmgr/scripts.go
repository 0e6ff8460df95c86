package lockmgr

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// luaFiles has lock.lua and the Manager's own scripts. By the functions in lock.lua, scripts acquire, check, extend
// and release a lock. Each rule of the lock stands there once.
//
//go:embed lua/*.lua
var luaFiles embed.FS

func luaFile(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it was embedded
	}
	return string(text)
}

// NewScript returns a script that starts with the functions of lua/lock.lua that body uses. It leaves out the
// others because Redis creates every function each time a script runs. Use NewScript to check the token in the
// same step as a write, and run the script with [Manager.Run]:
//
//	guarded := lockmgr.NewScript(`
//	  if not lock_holds(1, ARGV[3]) then return 0 end
//	  redis.call('SET', KEYS[4], ARGV[4])
//	  lock_release(1)
//	  return 1`)
//
//	locks.Run(ctx, guarded, name, []string{"score"}, lock.Token(), 21)
//
// A script that releases the lock this way ends the hold: call [Lock.Released] instead of Release. If a script
// finds the token gone, call [Lock.WriteRefused].
//
// On Redis Cluster the lock's keys and the guarded keys must share a hash tag: [Manager.Keys] puts {name} into
// the keys of the lock.
//
// If body has a line "-- lock.lua", the functions of lua/lock.lua that only later lines use are inserted there.
//
// Libraries are texts of further functions; the script gets those that it uses. Such a function starts with
// "local function" and ends with the first "end" that is not indented. A library may contain nothing else but
// one-line comments. NewScript panics at any other line, and names it.
func NewScript(body string, libraries ...string) *redis.Script {
	return redis.NewScript(withRules(body, libraries...))
}

// lockPlace marks where a script wants the functions of lock.lua.
const lockPlace = "\n-- lock.lua\n"

// rule is a function of lock.lua or of a library.
type rule struct{ name, text string }

var rules = parseRules(luaFile("lock"))

var (
	ruleText = regexp.MustCompile(`(?ms)^local function (\w+)[ \t]*\(.*?^end\b[^\n]*\n`)
	ruleName = regexp.MustCompile(`\b[A-Za-z_]\w*`)
	comment  = regexp.MustCompile(`--[^\n]*`)
)

// parseRules splits a text into its functions; see NewScript. A function uses only earlier ones.
func parseRules(text string) (all []rule) {
	text = unixLines(text) + "\n"
	for _, m := range ruleText.FindAllStringSubmatch(text, -1) {
		if _, second, two := strings.Cut(m[0], "\nlocal function "); two {
			name, _, _ := strings.Cut(second, "\n")
			panic(fmt.Sprintf("lockmgr: function %s has no \"end\" at the beginning of a line before function %s",
				m[1], name))
		}
		all = append(all, rule{m[1], m[0]})
	}
	rest := strings.TrimSpace(comment.ReplaceAllString(ruleText.ReplaceAllString(text, ""), ""))
	if rest != "" {
		line, _, _ := strings.Cut(rest, "\n")
		panic(fmt.Sprintf("lockmgr: a library of functions has a line that is part of none: %q", line))
	}
	return all
}

func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// withRules returns the text of a script of [NewScript].
func withRules(body string, libraries ...string) string {
	body = unixLines(body)
	all := slices.Clip(rules)
	for _, text := range libraries {
		all = append(all, parseRules(text)...)
	}
	before, after, later := strings.Cut(body, lockPlace)
	used := usedRules(all, body)
	if !later {
		return join(used) + body
	}
	early := before
	for _, r := range used {
		if !slices.Contains(rules, r) { // r is from a library
			early += r.text
		}
	}
	front := usedRules(all, early)
	rest := slices.DeleteFunc(used, func(r rule) bool { return slices.Contains(front, r) })
	return join(front) + before + "\n" + join(rest) + after
}

// usedRules returns the rules that a text uses, directly or through other rules.
func usedRules(all []rule, text string) (used []rule) {
	names := ruleName.FindAllString(text, -1)
	for _, r := range slices.Backward(all) {
		if slices.Contains(names, r.name) {
			names = append(names, ruleName.FindAllString(r.text, -1)...)
			used = append(used, r)
		}
	}
	slices.Reverse(used)
	return used
}

func join(rules []rule) string {
	var text strings.Builder
	for _, r := range rules {
		text.WriteString(r.text)
	}
	return text.String()
}

var (
	acquireScript    = NewScript(luaFile("acquire"))
	allScript        = NewScript(luaFile("all"))
	tryScript        = NewScript(luaFile("try"))
	extendScript     = NewScript(luaFile("extend"))
	releaseScript    = NewScript(luaFile("release"))
	releaseAllScript = NewScript(luaFile("release_all"))
	passScript       = NewScript(luaFile("pass"))
	abandonScript    = NewScript(luaFile("abandon"))
	inheritScript    = NewScript(luaFile("inherit"))
)
