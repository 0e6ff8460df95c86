package lab

import (
	"math/rand/v2"
	"strconv"
	"time"

	"roomd/loadtest/lab/anomaly"
)

// The articles. The first and the fourth are one, in two languages.
const (
	unlockArticle = "1, 4: how to unlock"
	setnxArticle  = "2: SETNX and caches"
	cardArticle   = "3: the card game"
	stampArticle  = "5: lock() for a cache"
	pythonArticle = "5: beside it, in Python"
	noArticle     = "none"
)

// otherTTL is the TTL for articles without one. For locks without expiry, it only sets the length of a pause.
const otherTTL = 10

// shows lists an anomaly under a fault. showsForever lists one that also stays.
func shows(fault, anomaly, text string) Listed {
	return Listed{Text: text, Fault: fault, Anomaly: anomaly}
}

func showsForever(fault, anomaly, text string) Listed {
	return Listed{Text: text, Fault: fault, Anomaly: anomaly, Forever: true}
}

// compareDel is a script that deletes the lock if it has the caller's value.
const compareDel = "EVAL lua/compare_del.lua 1 lock value"

// disciplines are in the articles' order. Where the article's caller gives up on a lock that is held, a player
// asks again every 5 ms. The third article names incr and hsetnx without their steps.
var disciplines = []*discipline{{
	// It appends blindly. So if a user's leave is overwritten, and the user joins again, the list has the user twice.
	name: "none", article: cardArticle, ttl: otherTTL, steps: []step{stepRead, stepWrote},
	about: "GET list, append blindly, SET list",
	listed: []Listed{shows("pause-write", anomaly.Lost, "lost updates"),
		shows("pause-write", anomaly.TwoHolders, "dirty reads"),
		shows("heavy-load", anomaly.Duplicate, "duplicates")},
}, {
	// The lab's choice: the value is 1.
	name: "setnx", article: setnxArticle, ttl: otherTTL, steps: lockSteps,
	lock:   &lock{take: "SETNX lock 1", release: "DEL lock"},
	listed: []Listed{showsForever("crash-lock", anomaly.Stuck, "a crashed holder blocks for ever")},
}, {
	name: "setnx-expire", article: unlockArticle, ttl: 10, steps: with(stepSet),
	lock: &lock{take: "SETNX lock 1", then: "EXPIRE lock 10s", release: "DEL lock"},
	listed: []Listed{showsForever("crash-setnx", anomaly.Stuck, "a crash between the two blocks for ever"),
		shows("pause-setnx", anomaly.Stuck, "a long pause between the two blocks as long as it lasts"),
		shows("pause-release", anomaly.Deleted, "DEL deletes somebody else's lock")},
}, {
	// EXPIRE runs even if SETNX has failed. The lab's choices: the ttl, a variable there, is 10; the value is 1.
	name: "multi-expire", article: setnxArticle, ttl: otherTTL, steps: lockSteps,
	about: "MULTI, SETNX lock 1, EXPIRE 10, EXEC … DEL",
	lock:  &lock{turn: setTogether, take: "SETNX lock 1", then: "EXPIRE lock 10s", release: "DEL lock"},
	listed: []Listed{shows("crash-lock", anomaly.Stuck,
		"losers refresh the TTL: a dead holder's lock lives on under load")},
}, {
	// The lab's choices: the ttl, a variable there, is 10; the value is 1.
	name: "lua-setnx", article: setnxArticle, ttl: otherTTL, steps: lockSteps,
	about:  "Lua with three KEYS, which Cluster refuses: SETNX, and EXPIRE 10 if it took … DEL",
	lock:   &lock{take: "EVAL lua/lua_setnx.lua 3 lock 1 10s", release: "DEL lock"},
	listed: []Listed{shows("pause-release", anomaly.Deleted, "DEL deletes somebody else's lock after expiry")},
}, {
	name: "set-nx-del", article: unlockArticle, ttl: 10, steps: lockSteps,
	lock: &lock{take: "SET lock 1 EX 10s NX", release: "DEL lock"},
	listed: []Listed{shows("pause-release", anomaly.Deleted, "DEL deletes somebody else's lock after expiry"),
		shows("crash-lock", waited, "a TTL that is too long: everybody waits for all of it after a crash")},
}, {
	// The lab's choices: the ttl, a variable there, is 10; each attempt draws a new value of 64 bits, because an
	// attempt is a call.
	name: "get-compare-del", article: setnxArticle, ttl: otherTTL, steps: with(stepChecked),
	about: "SET lock <random> EX 10 NX … GET, compare, DEL",
	lock: &lock{draw: func(c *caller) { c.value = strconv.FormatUint(rand.Uint64(), 10) },
		take: "SET lock value EX 10s NX", check: isOwn, release: "DEL lock"},
	listed: []Listed{shows("pause-check", anomaly.Deleted, "expiry between GET and DEL deletes somebody else's lock")},
}, {
	// The token is drawn outside the PHP function that sets the lock, which cannot see it. The script is in
	// backticks, so PHP runs a shell, which prints nothing; and the number of keys is missing.
	name: "set-rand-lua-printed", article: unlockArticle, ttl: 10, steps: keptSteps,
	about:  `as printed: SET lock "" NX EX 10 … EVAL of an empty script, an error`,
	lock:   &lock{take: `SET lock "" NX EX 10s`, release: `EVAL "" lock ""`},
	listed: []Listed{shows("no-fault", anomaly.Kept, "nobody unlocks: the lock stays for 10 s")},
}, {
	name: "set-rand-lua-empty", article: unlockArticle, ttl: 10, steps: lockSteps,
	about:  `its script mended: SET lock "" NX EX 10 … Lua: DEL if the value is ""`,
	lock:   &lock{take: `SET lock "" NX EX 10s`, release: compareDel},
	listed: []Listed{shows("pause-release", anomaly.Deleted, "all tokens are empty: unlock deletes anybody's lock")},
}, {
	// A PHP process serves one caller, so a caller draws once, before its first attempt.
	name: "set-rand-lua", article: unlockArticle, ttl: 10, steps: with(stepDrawn),
	about: "as meant: SET lock <1 to 100,000, drawn once> NX EX 10 … Lua: DEL if the value is mine",
	lock: &lock{take: "SET lock value NX EX 10s", release: compareDel, draw: func(c *caller) {
		if c.value == "" {
			drawNumber(1, 100_000)(c)
		}
	}},
	listed: []Listed{shows("same-token", anomaly.Deleted,
		"tokens collide: a stale holder deletes a lock that is not its own"),
		shows("pause-write", anomaly.Lost, "a holder past the TTL still writes")},
}, {
	// The lab's choice: EXPIRE 10, as with setnx-expire.
	name: "incr", article: cardArticle, ttl: otherTTL, steps: with(stepSet), counts: true,
	about: "named only: INCR lock, mine if it is 1, then EXPIRE 10 … DEL",
	lock:  &lock{take: "INCR lock", then: "EXPIRE lock 10s", release: "DEL lock"},
	listed: []Listed{showsForever("crash-setnx", anomaly.Stuck, "a crash before EXPIRE blocks for ever"),
		shows("pause-setnx", anomaly.Stuck, "a long pause before EXPIRE blocks as long as it lasts"),
		shows("pause-release", anomaly.Deleted, "DEL deletes somebody else's lock")},
}, {
	// A field has no expiry. The lab's choice: the value is 1.
	name: "hsetnx", article: cardArticle, ttl: otherTTL, steps: lockSteps, inHash: true,
	about:  "named only: HSETNX locks lock 1 … HDEL",
	lock:   &lock{take: "HSETNX locks lock 1", release: "HDEL locks lock"},
	listed: []Listed{showsForever("crash-lock", anomaly.Stuck, "a crashed holder blocks for ever")},
}, {
	// The article's words on memcache, which has no SETNX, it says: in its place are set, with the time to live, and
	// get. A caller that finds its own value has the lock. Two that found no lock, and do so one after the other,
	// both have it. (memcached has add.)
	name: "set-get", article: stampArticle, ttl: 2,
	steps: with(stepDrawn, stepLooking, stepChecked, stepExpired, stepOverwrote),
	about: "timestamp for memcache: SETEX and GET in the place of SETNX and EXPIRE",
	lock: &lock{draw: drawTimestamp, turn: lookFirst, again: timestampPause, most: 5, check: hasTime,
		release: "DEL lock"},
	listed: []Listed{shows("take-over", anomaly.TwoHolders, "two that set one after the other both hold it"),
		shows("same-token", anomaly.TwoHolders, "two that draw the same number both find it")},
}, {
	// It keeps the end of the hold in the lock, by the holder's clock: "<seconds>:<number>". A caller GETs it every
	// 0.1 s, for at most 5 s. If there is no lock at the first GET, it sends SETNX and EXPIRE 2; at a later one it
	// ends with an outcome of its own. If the time is past, it overwrites the lock with SETEX, and a second GET shows
	// who overwrote it last. The release is DEL unless TTL is 0, which it is with less than half a second left. All
	// clocks show whole seconds, and a call draws one number. It was published for a cache, where the outcome 2 means
	// that the value is there. The lab's choice: a player asks again, with a new call.
	name: "timestamp", article: stampArticle, ttl: 2,
	about: "GET, SETNX lock <its end>:<number>, EXPIRE 2; past its time SETEX, GET, compare … TTL, DEL",
	steps: with(stepDrawn, stepSet, stepLooking, stepChecked, stepExpired, stepOverwrote),
	lock: &lock{draw: drawTimestamp, turn: lookFirst, take: "SETNX lock end", then: "EXPIRE lock 2s",
		again: timestampPause, most: 5, check: hasTime, release: "DEL lock"},
	listed: timestampListed,
}, {
	// As timestamp, but each turn makes a value and tries SETNX before its GET. So a waiter gets a lock that was
	// freed, and there are only the outcomes 1 and 0. A lock that is freed before the GET counts as one with the time
	// 0: SETEX overwrites it, although somebody else may have set it by then. The lab's choice: on outcome 0 the
	// cache's caller reads the value before it gives up.
	name: "timestamp-first", article: stampArticle, ttl: 2,
	about: "the same, each turn with SETNX first, and SETEX also if the lock has just gone … TTL, DEL",
	steps: with(stepDrawn, stepSet, stepTried, stepLooking, stepChecked, stepExpired, stepOverwrote),
	lock: &lock{draw: drawTimestamp, turn: setFirst, take: "SETNX lock end", then: "EXPIRE lock 2s",
		again: timestampPause, most: 5, check: hasTime, release: "DEL lock", looksAfterTimeout: true},
	listed: append([]Listed{shows("just-gone", anomaly.TwoHolders, "two holders without any fault")},
		timestampListed...),
}, {
	// The release deletes every lock that anybody set before the releaser read its clock. The lab's choices: each
	// attempt computes the value anew; the endless loop ends when the player has lost patience.
	name: "timestamp-release", article: pythonArticle, ttl: 1, steps: lockSteps,
	about: "SET lock <its end> PX 1000 NX, spin 1 ms … Lua: DEL if that is not after now + 1000",
	lock: &lock{take: "SET lock now-ms+1000 PX 1000ms NX", again: time.Millisecond,
		release: "EVAL lua/del_if_not_after.lua 1 lock now-ms+1000"},
	listed: []Listed{shows("pause-release", anomaly.Deleted,
		"deletes any lock that was set before its clock was read")},
}, {
	// The lab's choices: the timeout is the other one's, 1,000 ms; a holder releases once, when it is done, and
	// nobody who waits releases in its place.
	name: "timestamp-plain", article: pythonArticle, ttl: 1, steps: keptSteps,
	about: "SETNX lock <its end> … Lua: DEL if that is past",
	lock:  &lock{take: "SETNX lock now-ms+1000", release: "EVAL lua/del_if_past.lua 1 lock now-ms"},
	listed: []Listed{showsForever("no-fault", anomaly.Kept, "nobody can give it back before its time"),
		showsForever("crash-lock", anomaly.Stuck, "a crashed holder blocks until somebody releases")},
}, {
	name: "set-nx-ex3-del", article: cardArticle, ttl: 3, steps: with(stepDrawn),
	about:  "SET lock <room + uniqid> EX 3 NX, spin 5 ms … DEL",
	lock:   &lock{draw: drawUniqid, take: "SET lock value EX 3s NX", again: spinPause, release: "DEL lock"},
	listed: []Listed{shows("pause-release", anomaly.Deleted, "a holder of more than 3 s deletes the next one's lock")},
}, {
	// The lab's choice: a list is a JSON array. The article's client stores it in one of the two ways below.
	name: "set-nx-lua", article: cardArticle, ttl: 3, steps: with(stepDrawn), lock: cardLock,
	about: "as meant: SET lock <room + uniqid> EX 3 NX, spin 5 ms … Lua: DEL if the value is mine",
	listed: []Listed{shows("pause-write", anomaly.Lost, "a holder past the TTL still writes"),
		shows("same-token", anomaly.Deleted, "uniqid is the time: two get the same, and a stale holder deletes a lock that is not its own"),
		shows("fail-over", anomaly.TwoHolders, "failover loses the lock, and two hold it")},
}, {
	// phpredis with a serializer applies it to the value of SET, and not to the argument of EVAL.
	name: "set-nx-lua-json", article: cardArticle, ttl: 3, steps: append([]step{stepDrawn}, keptSteps...),
	about: "the same, phpredis with the JSON serializer: SET lock <the value in quotes>, and Lua compares it without",
	lock:  &lock{draw: drawUniqid, take: `SET lock "value" EX 3s NX`, again: spinPause, release: compareDel},
	listed: []Listed{shows("no-fault", anomaly.Kept, "nobody ever unlocks: the lock stays for 3 s"),
		shows("no-fault", waited, "the next join waits for all of that")},
}, {
	// phpredis without one. The room begins without a list, because it cannot be stored.
	name: "set-nx-lua-array", article: cardArticle, ttl: 3, steps: with(stepDrawn), lock: cardLock, phpArray: true,
	about: `the same, phpredis without a serializer: SET list "Array", and who reads that dies`,
	listed: []Listed{shows("no-fault", anomaly.Lost, `the list becomes the word "Array"`),
		shows("no-fault", waited, "the next join dies while it holds the lock")},
},
	&roomd,
}

var cardLock = &lock{draw: drawUniqid, take: "SET lock value EX 3s NX", again: spinPause, release: compareDel}

// timestampPause is 0.1 published seconds.
const timestampPause = 100 * time.Millisecond

// timestampListed has the known anomalies of timestamp and timestamp-first.
var timestampListed = []Listed{
	shows("take-over", anomaly.TwoHolders, "takeover race"),
	shows("same-token", anomaly.TwoHolders, "two that draw the same number both take over"),
	shows("pause-release", anomaly.Deleted, "unlock deletes anyone's lock"),
	shows("clock-ahead", anomaly.TwoHolders, "client clocks"),
	shows("late-release", anomaly.Kept, "a lock with less than half a second left is not deleted"),
}

// roomd is the real coordinator, with a node for each process. The driver cannot stop it between its own steps.
// So the wire recognizes its requests to Redis, and strikes there.
var roomd = discipline{
	name: "roomd", article: noArticle, ttl: 3, steps: lockSteps,
	about: "roomd's lock; the script that writes also checks the lock's token",
}
