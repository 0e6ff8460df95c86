package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// Tests in virtual time are worth what the embedded Redis (miniredis) is. Here it gets the same random commands
// and scripts as a redis-server, and has to answer and to keep the same.
//
// What is known to differ, and does not matter to roomd:
//   - the order of a hash's fields and a set's members: Redis promises none
//   - the text of an error behind its first word, and all of it where a script fails
//   - redis.pcall with nil for an argument, which no script does that gets all of its arguments: miniredis fails
//   - ZRANGE WITHSCORES by RESP3, which answers with pairs, and miniredis with a list. Scripts speak RESP2
//   - nan as a score, which miniredis takes
//   - INFO, which miniredis has none of: an embedded Redis counts as one that is never restarted
func TestMiniredis_IsLikeRedis(t *testing.T) {
	server := redistest.Start(t).Client()
	_, mini := redistest.Mini(t)
	scripts := allScripts(t)
	for _, s := range scripts {
		redistest.OK(t, errors.Join(s.script.Load(t.Context(), server).Err(), s.script.Load(t.Context(), mini).Err()))
	}
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		checks++
		both := pairOfServers{t, t.Context(), server, mini}
		both.same("FLUSHALL")
		for range rapid.IntRange(1, 30).Draw(t, "commands") {
			switch rapid.IntRange(0, 5).Draw(t, "which") {
			case 0:
				both.same(drawScript(t, scripts)...)
			case 1, 2:
				both.same(drawCommit(t, scripts)...)
			default:
				both.same(drawCommand(t)...)
			}
		}
		both.same("EVAL", dumpLua, 0)
	})
	t.Logf("%d sequences", checks)
}

// pairOfServers are the two that have to be alike.
type pairOfServers struct {
	t            *rapid.T
	ctx          context.Context
	server, mini *redis.Client
}

// same sends a command to both, and compares the answers.
func (p *pairOfServers) same(command ...any) {
	p.t.Helper()
	want, got := answerOf(p.server.Do(p.ctx, command...)), answerOf(p.mini.Do(p.ctx, command...))
	if want != got {
		p.t.Fatalf("%q:\nRedis     answers %s\nminiredis answers %s", command, want, got)
	}
}

// answerOf returns an answer without what differs for good reason, such as times.
func answerOf(cmd *redis.Cmd) string {
	v, err := cmd.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		if code, _, _ := strings.Cut(err.Error(), " "); !strings.HasPrefix(cmd.Name(), "eval") || code == "NOSCRIPT" {
			return "error " + code
		}
		return "error"
	}
	if strings.EqualFold(cmd.Name(), "zrange") {
		v = flat(v)
	}
	if list, ok := v.([]any); ok && len(list) > 0 && !isDump(list[0]) { // a room, whose members come last, its hash, or the feed's rooms
		if last, ok := list[len(list)-1].([]any); ok && (len(list) >= 10 || slices.Contains(last, any("version")) ||
			len(list) == 4 && list[1] == "<incarnation>") {
			list[len(list)-1] = plainSet(last, 2)
		}
	}
	unordered := map[string]bool{"hgetall": true, "smembers": true, "hkeys": true, "hvals": true}[strings.ToLower(cmd.Name())]
	return plain(v, unordered)
}

// flat returns pairs as a list.
func flat(v any) any {
	list, _ := v.([]any)
	var all []any
	for _, one := range list {
		if pair, ok := one.([]any); ok {
			all = append(all, pair...)
		} else {
			all = append(all, one)
		}
	}
	return all
}

// serverTime is a time in a text, in ms or microseconds.
var serverTime = regexp.MustCompile(`\b[0-9]{13}([0-9]{3})?\b`)

// plain writes a value: times and positions, which are a server's own, as T, and TTLs roughly.
func plain(v any, unordered bool) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case error: // of one key of several
		return "error"
	case int64:
		return number(float64(v))
	case float64:
		return number(v)
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return strconv.Quote(number(f))
		}
		if ms, serial, ok := strings.Cut(v, "-"); ok && len(ms) == 13 && len(serial) == 1 {
			return `"ID"`
		}
		return strconv.Quote(serverTime.ReplaceAllString(v, "T"))
	case map[any]any:
		var list []string
		for key, value := range v {
			list = append(list, plain(key, false)+": "+plain(value, false))
		}
		slices.Sort(list)
		return fmt.Sprint(list)
	case []any:
		list := make([]string, len(v))
		for i := range v {
			list[i] = plain(v[i], false)
		}
		switch {
		case len(v) == 4 && v[1] == "hash", len(v) == 4 && v[1] == "set": // of dumpLua
			inner := v[3].([]any)
			list[3] = plainSet(inner, 1)
			if v[1] == "hash" {
				list[3] = plainSet(inner, 2)
			}
		case unordered:
			return plainSet(v, 1)
		case len(v) > 0 && isDump(v[0]):
			slices.Sort(list)
		}
		return fmt.Sprint(list)
	}
	return fmt.Sprintf("%T %v", v, v)
}

func isDump(v any) bool {
	row, ok := v.([]any)
	return ok && len(row) == 4
}

// plainSet writes groups of so many values in order.
func plainSet(values []any, size int) string {
	var list []string
	for group := range slices.Chunk(values, size) {
		text := make([]string, len(group))
		for i := range group {
			text[i] = plain(group[i], false)
		}
		list = append(list, strings.Join(text, "="))
	}
	slices.Sort(list)
	return fmt.Sprint(list)
}

func number(f float64) string {
	switch {
	case f > 1.0005e18:
		return "1e18+T"
	case f > 1e12 && f < 1e17:
		return "T"
	case f > 1000 && f < 1e8: // a TTL in ms, to 10 s
		return fmt.Sprintf("~%.0f", f/1e4)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// simScriptFile is a script with the number of its keys.
type simScriptFile struct {
	name   string
	script *redis.Script
	keys   int
}

// allScripts returns those that nodes run.
func allScripts(t *testing.T) []simScriptFile {
	library, err := os.ReadFile("internal/store/lua/room.lua")
	redistest.OK(t, err)
	keys := map[string]int{"commit": 7, "take": 5, "load": 2, "forget": 2, "move": 14, "lease": 4, "lease_end": 5, "lease_over": 2, "lease_rooms": 2, "lobby_begin": 1, "lobby_note": 1}
	var scripts []simScriptFile
	for _, pattern := range []string{"internal/*/lua/*.lua", "../../lockmgr/lua/*.lua"} {
		files, err := filepath.Glob(pattern)
		redistest.OK(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			redistest.OK(t, err)
			name := strings.TrimSuffix(filepath.Base(file), ".lua")
			if name == "room" || name == "lock" {
				continue
			}
			n := max(keys[name], 1)
			if strings.HasPrefix(pattern, "../") {
				n = 3
			}
			scripts = append(scripts, simScriptFile{name, lockmgr.NewScript(string(text), string(library)), n})
		}
	}
	return scripts
}

var (
	simKeys   = rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5", "k6"})
	simValues = rapid.SampledFrom([]string{"", "a", "b", "c", "100000", "-3", "700000", "room:00000000-0000-4000-8000-000000000001", "room:00000000-0000-4000-8000-000000000002", "200000 3000 4000 host x", "null", "0", "PUBLISH"})
)

var simTokens = rapid.SampledFrom([]string{"room:00000000-0000-4000-8000-000000000001", "room:00000000-0000-4000-8000-000000000002", "room:00000000-0000-4000-8000-000000000003"})

func draw[T any](t *rapid.T, g *rapid.Generator[T]) any { return g.Draw(t, "") }

// drawScript draws a script with keys, and arguments of all kinds.
func drawScript(t *rapid.T, scripts []simScriptFile) []any {
	s := rapid.SampledFrom(scripts).Draw(t, "script")
	command := []any{"EVALSHA", s.script.Hash(), s.keys}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5", "k6", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8"}), s.keys, s.keys, rapid.ID[string]).Draw(t, "keys") {
		command = append(command, key)
	}
	command = append(command, "PUBLISH", "250000")
	for range rapid.IntRange(14, 20).Draw(t, "arguments") {
		command = append(command, draw(t, simValues))
	}
	return command
}

// drawCommit draws a commit that may be in order.
func drawCommit(t *rapid.T, scripts []simScriptFile) []any {
	commit := scripts[slices.IndexFunc(scripts, func(s simScriptFile) bool { return s.name == "commit" })]
	one := func(of ...any) any { return rapid.SampledFrom(of).Draw(t, "") }
	command := []any{"EVALSHA", commit.script.Hash(), 7, "l1", "l2", "l3", one("k1", "k2"), one("k3", "k4"), "k6", "k5", "PUBLISH", "250000"}
	command = append(command, draw(t, simTokens), one("", "100000", "100000 "), one("c1", "c2", "c3"), one("", "", "m1", "m2"), one("by:a", "by:b"), one(1, 2), one("", "event"), "channel")
	command = append(command, one(0, 0, 1, 2), one(0, 1), 1, one("", "  e1  0", "  e1 600000 2 100", "room:00000000-0000-4000-8000-000000000002 100000   0"), one("m1", "m2"))
	return append(command, one("u", "v"), "{}", one("u", "v"), "data", "1")
}

// drawCommand draws one of the commands that scripts and nodes use.
func drawCommand(t *rapid.T) []any {
	key, value, other := draw(t, simKeys), draw(t, simValues), draw(t, simValues)
	ttl := rapid.SampledFrom([]int{100_000, 600_000, 3_600_000}).Draw(t, "ttl")
	score := rapid.SampledFrom([]string{"1", "2", "3.5", "-1", "1e18", "1e15", "x"}).Draw(t, "score")
	return rapid.SampledFrom([][]any{
		{"SET", key, value}, {"SET", key, value, "NX", "PX", ttl}, {"SET", key, value, "PX", ttl}, {"SET", key, value, "PX", ttl, "GET"},
		{"SET", key, value, "KEEPTTL"}, {"SET", key, value, "EX", "100", "NX"}, {"SET", key, value, "PX", value}, {"SET", key, value, "NX", "GET"}, {"GET", key}, {"DEL", key, "k1"},
		{"EXISTS", key, "k2"}, {"EXISTS", key}, {"TYPE", key}, {"PEXPIRE", key, ttl}, {"PEXPIRE", key, value}, {"PERSIST", key}, {"PTTL", key},
		{"HSET", key, value, other}, {"HSET", key, value, other, "b", "2"}, {"HSET", key, value}, {"HSETNX", key, value, other}, {"HGET", key, value}, {"HDEL", key, value, "b"},
		{"HMGET", key, value, other}, {"HLEN", key}, {"HGETALL", key}, {"HVALS", key}, {"HEXISTS", key, value},
		{"ZADD", key, score, value}, {"ZADD", key, "LT", score, value}, {"ZADD", key, "NX", score, value}, {"ZADD", key, "1", value, "2", other}, {"ZSCORE", key, value},
		{"ZRANGE", key, 0, 0, "WITHSCORES"}, {"ZRANGE", key, 0, -1}, {"ZRANGE", key, 1, 2, "WITHSCORES"}, {"ZREM", key, value, other}, {"ZCARD", key},
		{"ZREMRANGEBYSCORE", key, "-inf", score}, {"ZREMRANGEBYSCORE", key, "1e18", "2e18"}, {"ZRANGEBYSCORE", key, score, "+inf"},
		{"SADD", key, value, other}, {"SREM", key, value, other}, {"SCARD", key}, {"SISMEMBER", key, value}, {"SMEMBERS", key},
		{"XADD", key, "MAXLEN", "~", 100, "*", "commit", value}, {"XADD", key, "MAXLEN", "~", value, "*", "commit", value}, {"XLEN", key},
		{"PUBLISH", value, other}, {"TIME", value}, {"EVALSHA", "0000000000000000000000000000000000000000", 0}, {"NOSUCH", key}, {"GET"}, {"SCRIPT", "EXISTS", "0000000000000000000000000000000000000000"},
	}).Draw(t, "command")
}
