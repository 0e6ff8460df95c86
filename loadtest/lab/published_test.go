package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// path is one way through a discipline: 张三 joins a room with 李四 and 王五 in it.
type path struct {
	discipline, name string

	// before has commands of somebody else, by the number of the caller's command
	// just before which they run.
	before map[int]string

	// want is the published commands. In them stand for
	//	lock, locks, list   the keys; of the cache, value and old
	//	{x}                 the script lua/x.lua; what it does comes after it, with "lua"
	//	end:a, end:b        now + 2 in seconds, and a random number; a is the first
	//	now, now+1000       in ms
	//	random-a, random-b  random numbers; a is the first
	//	room+uniqid         the card game's value
	//	later, past         values of timestamp's whose time is to come, and is past
	//	later-ms, past-ms   the same of timestamp-release; begun+1000 is one set before
	//	other               any other value
	want string

	cache bool  // the caller does not join, but wants a value that is not there
	fails error // of the caller

	wholeSecond bool // its times are too short where a second is scaled
}

// The parts that many have in common.
const (
	readWrite = "GET list · SET list 李四 王五 张三"
)

// published is the commands of the articles' callers, as a Redis server receives them.
var published = []path{
	{discipline: "none", name: "free", want: readWrite},
	{discipline: "none", name: "already in", before: map[int]string{1: "SET list 张三"}, want: "GET list · SET list 张三 张三"},

	{discipline: "setnx", name: "free", want: "SETNX lock 1 · " + readWrite + " · DEL lock"},
	{discipline: "setnx", name: "held", before: map[int]string{1: "SET lock other", 3: "DEL lock"},
		want: "SETNX lock 1 · SETNX lock 1 · SETNX lock 1 · " + readWrite + " · DEL lock"},
	{discipline: "setnx", name: "another's", before: map[int]string{4: "SET lock other"}, want: "SETNX lock 1 · " + readWrite + " · DEL lock"},

	{discipline: "setnx-expire", name: "free", want: "SETNX lock 1 · EXPIRE lock 10 · " + readWrite + " · DEL lock"},
	{discipline: "setnx-expire", name: "held", before: map[int]string{1: "SET lock other", 2: "DEL lock"},
		want: "SETNX lock 1 · SETNX lock 1 · EXPIRE lock 10 · " + readWrite + " · DEL lock"},
	{discipline: "setnx-expire", name: "another's", before: map[int]string{5: "SET lock other"},
		want: "SETNX lock 1 · EXPIRE lock 10 · " + readWrite + " · DEL lock"},

	{discipline: "multi-expire", name: "free", want: "MULTI · SETNX lock 1 · EXPIRE lock 10 · EXEC · " + readWrite + " · DEL lock"},
	{discipline: "multi-expire", name: "held", before: map[int]string{1: "SET lock other", 5: "DEL lock"},
		want: "MULTI · SETNX lock 1 · EXPIRE lock 10 · EXEC · MULTI · SETNX lock 1 · EXPIRE lock 10 · EXEC · " + readWrite + " · DEL lock"},
	{discipline: "multi-expire", name: "another's", before: map[int]string{7: "SET lock other"},
		want: "MULTI · SETNX lock 1 · EXPIRE lock 10 · EXEC · " + readWrite + " · DEL lock"},

	{discipline: "lua-setnx", name: "free",
		want: "EVAL {lua_setnx} 1 lock 1 10 · lua SETNX lock 1 · lua EXPIRE lock 10 · " + readWrite + " · DEL lock"},
	{discipline: "lua-setnx", name: "held", before: map[int]string{1: "SET lock other", 2: "DEL lock"},
		want: "EVAL {lua_setnx} 1 lock 1 10 · lua SETNX lock 1 · " +
			"EVAL {lua_setnx} 1 lock 1 10 · lua SETNX lock 1 · lua EXPIRE lock 10 · " + readWrite + " · DEL lock"},
	{discipline: "lua-setnx", name: "another's", before: map[int]string{4: "SET lock other"},
		want: "EVAL {lua_setnx} 1 lock 1 10 · lua SETNX lock 1 · lua EXPIRE lock 10 · " + readWrite + " · DEL lock"},

	{discipline: "set-nx-del", name: "free", want: "SET lock 1 NX EX 10 · " + readWrite + " · DEL lock"},
	{discipline: "set-nx-del", name: "held", before: map[int]string{1: "SET lock other", 2: "DEL lock"},
		want: "SET lock 1 NX EX 10 · SET lock 1 NX EX 10 · " + readWrite + " · DEL lock"},
	{discipline: "set-nx-del", name: "another's", before: map[int]string{4: "SET lock other"}, want: "SET lock 1 NX EX 10 · " + readWrite + " · DEL lock"},

	{discipline: "get-compare-del", name: "free", want: "SET lock random-a NX EX 10 · " + readWrite + " · GET lock · DEL lock"},
	{discipline: "get-compare-del", name: "held", before: map[int]string{1: "SET lock other", 2: "DEL lock"},
		want: "SET lock random-a NX EX 10 · SET lock random-b NX EX 10 · " + readWrite + " · GET lock · DEL lock"},
	{discipline: "get-compare-del", name: "another's", before: map[int]string{4: "SET lock other"},
		want: "SET lock random-a NX EX 10 · " + readWrite + " · GET lock"},
	{discipline: "get-compare-del", name: "gone", before: map[int]string{4: "DEL lock"},
		want: "SET lock random-a NX EX 10 · " + readWrite + " · GET lock"},
	{discipline: "get-compare-del", name: "another's since the check", before: map[int]string{5: "SET lock other"},
		want: "SET lock random-a NX EX 10 · " + readWrite + " · GET lock · DEL lock"},

	{discipline: "set-rand-lua", name: "free",
		want: "SET lock random-a NX EX 10 · " + readWrite + " · EVAL {compare_del} 1 lock random-a · lua GET lock · lua DEL lock"},
	{discipline: "set-rand-lua", name: "held", before: map[int]string{1: "SET lock other", 2: "DEL lock"},
		want: "SET lock random-a NX EX 10 · SET lock random-b NX EX 10 · " + readWrite +
			" · EVAL {compare_del} 1 lock random-b · lua GET lock · lua DEL lock"},
	{discipline: "set-rand-lua", name: "another's", before: map[int]string{4: "SET lock other"},
		want: "SET lock random-a NX EX 10 · " + readWrite + " · EVAL {compare_del} 1 lock random-a · lua GET lock"},

	{discipline: "incr", name: "free", want: "INCR lock · EXPIRE lock 10 · " + readWrite + " · DEL lock"},
	{discipline: "incr", name: "held", before: map[int]string{1: "SET lock 1", 3: "DEL lock"},
		want: "INCR lock · INCR lock · INCR lock · EXPIRE lock 10 · " + readWrite + " · DEL lock"},
	{discipline: "incr", name: "another's", before: map[int]string{5: "SET lock 1"}, want: "INCR lock · EXPIRE lock 10 · " + readWrite + " · DEL lock"},

	{discipline: "hsetnx", name: "free", want: "HSETNX locks lock 1 · " + readWrite + " · HDEL locks lock"},
	{discipline: "hsetnx", name: "held", before: map[int]string{1: "HSET locks lock other", 2: "HDEL locks lock"},
		want: "HSETNX locks lock 1 · HSETNX locks lock 1 · " + readWrite + " · HDEL locks lock"},
	{discipline: "hsetnx", name: "another's", before: map[int]string{4: "HSET locks lock other"},
		want: "HSETNX locks lock 1 · " + readWrite + " · HDEL locks lock"},

	{discipline: "set-get", name: "free", want: "SET lock random-a · GET lock · " + readWrite + " · DEL lock"},
	{discipline: "set-get", name: "held", before: map[int]string{1: "SET lock other"},
		want: "SET lock random-a · GET lock · " + readWrite + " · DEL lock"},
	{discipline: "set-get", name: "another sets in between", before: map[int]string{2: "SET lock other"},
		want: "SET lock random-a · GET lock · SET lock random-b · GET lock · " + readWrite + " · DEL lock"},
	{discipline: "set-get", name: "gone in between", before: map[int]string{2: "DEL lock"},
		want: "SET lock random-a · GET lock · SET lock random-b · GET lock · " + readWrite + " · DEL lock"},
	{discipline: "set-get", name: "another's", before: map[int]string{5: "SET lock other"},
		want: "SET lock random-a · GET lock · " + readWrite + " · DEL lock"},

	{discipline: "timestamp", name: "free", want: "GET lock · SETNX lock end:a · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "taken since it looked", before: map[int]string{2: "SET lock later", 3: "DEL lock"},
		want: "GET lock · SETNX lock end:a · GET lock · " + // vanished, and the player asks again
			"GET lock · SETNX lock end:b · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "held, and vanishes", before: map[int]string{1: "SET lock later", 3: "DEL lock"},
		want: "GET lock · GET lock · GET lock · " +
			"GET lock · SETNX lock end:a · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "past its time", before: map[int]string{1: "SET lock past"},
		want: "GET lock · SETEX lock 2 end:a · GET lock · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "past its time, another is faster", before: map[int]string{1: "SET lock past", 3: "SET lock past"},
		want: "GET lock · SETEX lock 2 end:a · GET lock · " +
			"GET lock · SETEX lock 2 end:a · GET lock · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "past its time, and overwritten one gone", before: map[int]string{1: "SET lock past", 3: "DEL lock"},
		want: "GET lock · SETEX lock 2 end:a · GET lock · GET lock · " +
			"GET lock · SETNX lock end:b · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "another's", before: map[int]string{6: "SET lock later"},
		want: "GET lock · SETNX lock end:a · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "gone", before: map[int]string{6: "DEL lock"},
		want: "GET lock · SETNX lock end:a · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "less than half a second left", before: map[int]string{6: "PEXPIRE lock 450"}, wholeSecond: true,
		want: "GET lock · SETNX lock end:a · EXPIRE lock 2 · " + readWrite + " · TTL lock"},

	{discipline: "timestamp-first", name: "free", want: "SETNX lock end:a · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp-first", name: "held", before: map[int]string{1: "SET lock later", 5: "DEL lock"},
		want: "SETNX lock end:a · GET lock · SETNX lock end:b · GET lock · SETNX lock end:c · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp-first", name: "just gone", before: map[int]string{1: "SET lock later", 2: "DEL lock"},
		want: "SETNX lock end:a · GET lock · SETEX lock 2 end:b · GET lock · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp-first", name: "just gone, and set by another", before: map[int]string{1: "SET lock later", 2: "DEL lock", 3: "SET lock later"},
		want: "SETNX lock end:a · GET lock · SETEX lock 2 end:b · GET lock · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp-first", name: "past its time", before: map[int]string{1: "SET lock past"},
		want: "SETNX lock end:a · GET lock · SETEX lock 2 end:b · GET lock · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp-first", name: "past its time, another is faster", before: map[int]string{1: "SET lock past", 4: "SET lock later", 5: "DEL lock"},
		want: "SETNX lock end:a · GET lock · SETEX lock 2 end:b · GET lock · " +
			"SETNX lock end:c · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp-first", name: "another's", before: map[int]string{5: "SET lock later"},
		want: "SETNX lock end:a · EXPIRE lock 2 · " + readWrite + " · TTL lock · DEL lock"},
	{discipline: "timestamp-first", name: "less than half a second left", before: map[int]string{5: "PEXPIRE lock 450"}, wholeSecond: true,
		want: "SETNX lock end:a · EXPIRE lock 2 · " + readWrite + " · TTL lock"},

	{discipline: "timestamp-release", name: "free",
		want: "SET lock now+1000 NX PX 1000 · " + readWrite + " · EVAL {del_if_not_after} 1 lock now+1000 · lua GET lock · lua DEL lock"},
	{discipline: "timestamp-release", name: "held", before: map[int]string{1: "SET lock other", 3: "DEL lock"},
		want: "SET lock now+1000 NX PX 1000 · SET lock now+1000 NX PX 1000 · SET lock now+1000 NX PX 1000 · " + readWrite +
			" · EVAL {del_if_not_after} 1 lock now+1000 · lua GET lock · lua DEL lock"},
	{discipline: "timestamp-release", name: "another's, set before", before: map[int]string{4: "SET lock begun+1000"},
		want: "SET lock now+1000 NX PX 1000 · " + readWrite + " · EVAL {del_if_not_after} 1 lock now+1000 · lua GET lock · lua DEL lock"},
	{discipline: "timestamp-release", name: "another's, set since the call", before: map[int]string{4: "SET lock later-ms"},
		want: "SET lock now+1000 NX PX 1000 · " + readWrite + " · EVAL {del_if_not_after} 1 lock now+1000 · lua GET lock"},
	{discipline: "timestamp-release", name: "gone", before: map[int]string{4: "DEL lock"},
		want: "SET lock now+1000 NX PX 1000 · " + readWrite + " · EVAL {del_if_not_after} 1 lock now+1000 · lua GET lock"},

	{discipline: "timestamp-plain", name: "free, and given back before its time",
		want: "SETNX lock now+1000 · " + readWrite + " · EVAL {del_if_past} 1 lock now · lua GET lock"},
	{discipline: "timestamp-plain", name: "held", before: map[int]string{1: "SET lock past-ms", 3: "DEL lock"},
		want: "SETNX lock now+1000 · SETNX lock now+1000 · SETNX lock now+1000 · " + readWrite + " · EVAL {del_if_past} 1 lock now · lua GET lock"},
	{discipline: "timestamp-plain", name: "past its time", before: map[int]string{4: "SET lock past-ms"},
		want: "SETNX lock now+1000 · " + readWrite + " · EVAL {del_if_past} 1 lock now · lua GET lock · lua DEL lock"},
	{discipline: "timestamp-plain", name: "gone", before: map[int]string{4: "DEL lock"},
		want: "SETNX lock now+1000 · " + readWrite + " · EVAL {del_if_past} 1 lock now · lua GET lock"},

	{discipline: "set-nx-lua", name: "free",
		want: "SET lock room+uniqid-a NX EX 3 · " + readWrite + " · EVAL {compare_del} 1 lock room+uniqid-a · lua GET lock · lua DEL lock"},
	{discipline: "set-nx-lua", name: "held", before: map[int]string{1: "SET lock other", 3: "DEL lock"},
		want: "SET lock room+uniqid-a NX EX 3 · SET lock room+uniqid-a NX EX 3 · SET lock room+uniqid-a NX EX 3 · " + readWrite +
			" · EVAL {compare_del} 1 lock room+uniqid-a · lua GET lock · lua DEL lock"},
	{discipline: "set-nx-lua", name: "another's", before: map[int]string{4: "SET lock other"},
		want: "SET lock room+uniqid-a NX EX 3 · " + readWrite + " · EVAL {compare_del} 1 lock room+uniqid-a · lua GET lock"},

	{discipline: "set-nx-del", name: "cache, the one who has it", cache: true,
		want: "GET value · SET lock 1 NX EX 10 · SET value new EX 180 · DEL lock"},
	{discipline: "set-nx-del", name: "cache, the others use the old value", cache: true, before: map[int]string{1: "SET lock other"}, fails: errNoValue,
		want: "GET value · SET lock 1 NX EX 10 · GET old"},
	{discipline: "timestamp", name: "cache, outcome 1", cache: true,
		want: "GET value · GET lock · SETNX lock end:a · EXPIRE lock 2 · SET value new EX 180 · TTL lock · DEL lock"},
	{discipline: "timestamp", name: "cache, outcome 2", cache: true, before: map[int]string{1: "SET lock later", 3: "DEL lock", 4: "SET value new"},
		want: "GET value · GET lock · GET lock · GET value"},
	{discipline: "timestamp", name: "cache, outcome 2 without a value", cache: true, fails: errNoValue,
		before: map[int]string{1: "SET lock later", 3: "DEL lock"}, want: "GET value · GET lock · GET lock · GET value"},
	{discipline: "timestamp-first", name: "cache, outcome 1", cache: true,
		want: "GET value · SETNX lock end:a · EXPIRE lock 2 · SET value new EX 180 · TTL lock · DEL lock"},
}

// inMilliseconds returns the published commands as Redis must receive them where a second
// is scaled.
func inMilliseconds(commands string, second time.Duration) string {
	words := strings.Fields(commands)
	scale := func(i int, unit time.Duration) {
		n, _ := strconv.ParseInt(words[i], 10, 64)
		words[i] = fmt.Sprint(n * int64(unit) / int64(time.Millisecond))
	}
	for i, word := range words {
		switch word {
		case "EX":
			words[i] = "PX"
			scale(i+1, second)
		case "PX":
			scale(i+1, second/1000)
		case "EXPIRE", "SETEX":
			words[i] = "P" + word
			scale(i+2, second)
		case "TTL":
			words[i] = "PTTL"
		case "{lua_setnx}":
			scale(i+4, second)
		}
	}
	return strings.Join(words, " ")
}
