package lab

import (
	"context"
	_ "embed"
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

var (
	//go:embed lua/lua_setnx.lua
	luaSetnxLua string
	//go:embed lua/compare_del.lua
	compareDelLua string
	//go:embed lua/del_if_not_after.lua
	delIfNotAfterLua string
	//go:embed lua/del_if_past.lua
	delIfPastLua string
)

// The TTL of the articles without one of their own. Where there is no expiry at all, it only sets the length of a pause.
const otherTTL = 10

// shows lists an anomaly under a fault, and showsForever one that also stays.
func shows(fault, anomaly, text string) Listed {
	return Listed{Text: text, Fault: fault, Anomaly: anomaly}
}

func showsForever(fault, anomaly, text string) Listed {
	return Listed{Text: text, Fault: fault, Anomaly: anomaly, Forever: true}
}

// disciplines are in the order in which the articles arrive at them. A player who finds the lock taken asks again every 5 ms
// where the article's caller does nothing. The third article names incr and hsetnx without a word about their steps.
var disciplines = []*discipline{{
	// It appends blindly, so a user whose leave was overwritten, and who joins again, is in the list twice.
	name: "none", article: cardArticle, ttl: otherTTL, steps: []step{stepRead, stepWrote},
	about: "GET list, append blindly, SET list",
	listed: []Listed{shows(pauseWrite, anomaly.Lost, "lost updates"), shows(pauseWrite, anomaly.TwoHolders, "dirty reads"),
		shows(heavyLoad, anomaly.Duplicate, "duplicates")},
}, {
	// The lab's choice: the value is 1.
	name: "setnx", article: setnxArticle, ttl: otherTTL, steps: lockSteps,
	about:  "SETNX lock 1 … DEL",
	lock:   &lock{ask: takes("SETNX", theLock, 1), unlock: del},
	listed: []Listed{showsForever(crashLocked, anomaly.Stuck, "a crashed holder blocks for ever")},
}, {
	name: "setnx-expire", article: unlockArticle, ttl: 10, steps: with(stepSet),
	about: "SETNX lock 1, then EXPIRE 10 … DEL",
	lock:  &lock{ask: thenExpire(takes("SETNX", theLock, 1)), unlock: del},
	listed: []Listed{showsForever(crashSet, anomaly.Stuck, "a crash between the two blocks for ever"),
		shows(pauseSet, anomaly.Stuck, "a long pause between the two blocks as long as it lasts"),
		shows(pauseGiving, anomaly.Deleted, "DEL deletes somebody else's lock")},
}, {
	// EXPIRE runs also after a SETNX that failed. The lab's choices: the ttl, a variable there, is 10; the value is 1.
	name: "multi-expire", article: setnxArticle, ttl: otherTTL, steps: lockSteps,
	about:  "MULTI, SETNX lock 1, EXPIRE 10, EXEC … DEL",
	lock:   &lock{ask: multiExpire, unlock: del},
	listed: []Listed{shows(crashLocked, anomaly.Stuck, "losers refresh the TTL: a dead holder's lock lives on under load")},
}, {
	// The lab's choices: the ttl, a variable there, is 10; the value is 1.
	name: "lua-setnx", article: setnxArticle, ttl: otherTTL, steps: lockSteps,
	about:  "Lua with three KEYS, which Cluster refuses: SETNX, and EXPIRE 10 if it took … DEL",
	lock:   &lock{ask: takes("EVAL", luaSetnxLua, 3, theLock, 1, seconds(10)), unlock: del},
	listed: []Listed{shows(pauseGiving, anomaly.Deleted, "DEL deletes somebody else's lock after expiry")},
}, {
	name: "set-nx-del", article: unlockArticle, ttl: 10, steps: lockSteps,
	about: "SET lock 1 EX 10 NX … DEL",
	lock:  &lock{ask: takes("SET", theLock, 1, "EX", seconds(10), "NX"), unlock: del},
	listed: []Listed{shows(pauseGiving, anomaly.Deleted, "DEL deletes somebody else's lock after expiry"),
		shows(crashLocked, waited, "a TTL that is too long: everybody waits for all of it after a crash")},
}, {
	// The lab's choices: the ttl, a variable there, is 10; each attempt draws a new value of 64 bits, because an attempt is a
	// call.
	name: "get-compare-del", article: setnxArticle, ttl: otherTTL, steps: with(stepChecked),
	about: "SET lock <random> EX 10 NX … GET, compare, DEL",
	lock: &lock{unlock: compareInClient, ask: func(ctx context.Context, c *caller) (outcome, error) {
		c.value = strconv.FormatUint(c.random.Uint64(), 10)
		return takes("SET", theLock, ownValue, "EX", seconds(10), "NX")(ctx, c)
	}},
	listed: []Listed{shows(pauseChecked, anomaly.Deleted, "expiry between GET and DEL deletes somebody else's lock")},
}, {
	// The token is drawn outside the PHP function that sets the lock, which does not see it. The script is in backticks, so PHP
	// runs it in a shell and sends an empty one; where the number of keys belongs is the key. Nobody looks at the error.
	name: "set-rand-lua-printed", article: unlockArticle, ttl: 10, steps: keptSteps,
	about: `as printed: SET lock "" NX EX 10 … EVAL of an empty script, an error`,
	lock: &lock{ask: takes("SET", theLock, "", "NX", "EX", seconds(10)), unlock: func(ctx context.Context, c *caller) error {
		return unlessRefused(c.send(ctx, "EVAL", "", theLock, "").Err())
	}},
	listed: []Listed{shows(noFault, anomaly.Kept, "nobody unlocks: the lock stays for 10 s")},
}, {
	name: "set-rand-lua-empty", article: unlockArticle, ttl: 10, steps: lockSteps,
	about:  `its script mended: SET lock "" NX EX 10 … Lua: DEL if the value is ""`,
	lock:   &lock{ask: takes("SET", theLock, "", "NX", "EX", seconds(10)), unlock: compareDel},
	listed: []Listed{shows(pauseGiving, anomaly.Deleted, "all tokens are empty: unlock deletes anybody's lock")},
}, {
	// A PHP process serves one caller, so a caller draws once, before its first attempt.
	name: "set-rand-lua", article: unlockArticle, ttl: 10, steps: with(stepDrawn),
	about: "as meant: SET lock <1 to 100,000, drawn once> NX EX 10 … Lua: DEL if the value is mine",
	lock: &lock{unlock: compareDel, ask: func(ctx context.Context, c *caller) (outcome, error) {
		if c.value == "" {
			c.value = c.number(1, 100_000)
			c.at(stepDrawn)
		}
		return takes("SET", theLock, ownValue, "NX", "EX", seconds(10))(ctx, c)
	}},
	listed: []Listed{shows(sameToken, anomaly.Deleted, "tokens collide: a stale holder deletes a lock that is not its own"),
		shows(pauseWrite, anomaly.Lost, "a holder past the TTL still writes")},
}, {
	// The lab's choice: EXPIRE 10, as with setnx-expire.
	name: "incr", article: cardArticle, ttl: otherTTL, steps: with(stepSet), counts: true,
	about: "named only: INCR lock, mine if it is 1, then EXPIRE 10 … DEL",
	lock:  &lock{ask: thenExpire(takes("INCR", theLock)), unlock: del},
	listed: []Listed{showsForever(crashSet, anomaly.Stuck, "a crash before EXPIRE blocks for ever"),
		shows(pauseSet, anomaly.Stuck, "a long pause before EXPIRE blocks as long as it lasts"),
		shows(pauseGiving, anomaly.Deleted, "DEL deletes somebody else's lock")},
}, {
	// A field has no expiry. The lab's choice: the value is 1.
	name: "hsetnx", article: cardArticle, ttl: otherTTL, steps: lockSteps, inHash: true,
	about:  "named only: HSETNX locks lock 1 … HDEL",
	lock:   &lock{ask: takes("HSETNX", theHash, theLock, 1), unlock: sends("HDEL", theHash, theLock)},
	listed: []Listed{showsForever(crashLocked, anomaly.Stuck, "a crashed holder blocks for ever")},
}, {
	// The article's words on memcache, which has no SETNX, it says: in its place are set, with the time to live, and get. A
	// caller that finds its own value has the lock. Two that found no lock, and do so one after the other, both have it.
	// (memcached has add.)
	name: "set-get", article: stampArticle, ttl: timestampTTL,
	about: "timestamp for memcache: SETEX and GET in the place of SETNX and EXPIRE",
	steps: with(stepDrawn, stepLooking, stepChecked, stepExpired, stepOverwrote),
	lock:  &lock{waits: true, ask: timestampWait(timestampOverwrite), unlock: timestampUnlock, keepsEmpty: true},
	listed: []Listed{shows(takeOver, anomaly.TwoHolders, "two that set one after the other both hold it"),
		shows(sameToken, anomaly.TwoHolders, "two that draw the same number both find it")},
}, {
	// It keeps the end of the hold in the lock, by the holder's clock: "<seconds>:<number>". A caller GETs it every 0.1 s, for
	// at most 5 s. If there is no lock at the first GET, it sends SETNX and EXPIRE 2; at a later one it ends with an outcome of
	// its own. If the time is past, it overwrites the lock with SETEX, and a second GET shows who overwrote it last. The release
	// is DEL unless TTL is 0, which it is with less than half a second left. All clocks show whole seconds, and a call draws one
	// number. It was published for a cache, where the outcome 2 means that the value is there. The lab's choice: a player asks
	// again, with a new call.
	name: "timestamp", article: stampArticle, ttl: timestampTTL,
	about:  "GET, SETNX lock <its end>:<number>, EXPIRE 2; past its time SETEX, GET, compare … TTL, DEL",
	steps:  with(stepDrawn, stepSet, stepLooking, stepChecked, stepExpired, stepOverwrote),
	lock:   &lock{waits: true, ask: timestampWait(timestampSet), unlock: timestampUnlock, keepsEmpty: true},
	listed: timestampListed,
}, {
	// As timestamp, but each turn makes a value and tries SETNX before its GET. So a waiter gets a lock that was freed, and
	// there are only the outcomes 1 and 0. A lock that is freed before the GET counts as one with the time 0: SETEX overwrites
	// it, although somebody else may have set it by then. The lab's choice: on outcome 0 the cache's caller reads the value
	// before it gives up.
	name: "timestamp-first", article: stampArticle, ttl: timestampTTL,
	about:  "the same, each turn with SETNX first, and SETEX also if the lock has just gone … TTL, DEL",
	steps:  with(stepDrawn, stepSet, stepTried, stepLooking, stepChecked, stepExpired, stepOverwrote),
	lock:   &lock{waits: true, ask: timestampFirstWait, unlock: timestampUnlock, looksAfterTimeout: true, keepsEmpty: true},
	listed: append([]Listed{shows(justGone, anomaly.TwoHolders, "two holders without any fault")}, timestampListed...),
}, {
	// The release deletes every lock that anybody set before the releaser read its clock. The lab's choices: each attempt
	// computes the value anew; the endless loop ends when the player has lost patience.
	name: "timestamp-release", article: pythonArticle, ttl: 1, steps: lockSteps,
	about: "SET lock <its end> PX 1000 NX, spin 1 ms … Lua: DEL if that is not after now + 1000",
	lock: &lock{waits: true, ask: spin(time.Millisecond, takes("SET", theLock, inOneSecond, "PX", milliseconds(1000), "NX")),
		unlock: sends("EVAL", delIfNotAfterLua, 1, theLock, inOneSecond)},
	listed: []Listed{shows(pauseGiving, anomaly.Deleted, "deletes any lock that was set before its clock was read")},
}, {
	// The lab's choices: the timeout is the other one's, 1,000 ms; a holder releases once, when it is done, and nobody who waits
	// releases in its place.
	name: "timestamp-plain", article: pythonArticle, ttl: 1, steps: keptSteps,
	about: "SETNX lock <its end> … Lua: DEL if that is past",
	lock:  &lock{ask: takes("SETNX", theLock, inOneSecond), unlock: sends("EVAL", delIfPastLua, 1, theLock, rightNow)},
	listed: []Listed{showsForever(noFault, anomaly.Kept, "nobody can give it back before its time"),
		showsForever(crashLocked, anomaly.Stuck, "a crashed holder blocks until somebody releases")},
}, {
	name: "set-nx-ex3-del", article: cardArticle, ttl: 3, steps: with(stepDrawn), lock: cards(ownValue, del),
	about:  "SET lock <room + uniqid> EX 3 NX, spin 5 ms … DEL",
	listed: []Listed{shows(pauseGiving, anomaly.Deleted, "a holder of more than 3 s deletes the next one's lock")},
}, {
	// The lab's choice: a list is a JSON array. The article's client stores it in one of the two ways below.
	name: "set-nx-lua", article: cardArticle, ttl: 3, steps: with(stepDrawn), lock: cards(ownValue, compareDel),
	about: "as meant: SET lock <room + uniqid> EX 3 NX, spin 5 ms … Lua: DEL if the value is mine",
	listed: []Listed{shows(pauseWrite, anomaly.Lost, "a holder past the TTL still writes"),
		shows(sameToken, anomaly.Deleted, "uniqid is the time: two get the same, and a stale holder deletes a lock that is not its own"),
		shows(failOver, anomaly.TwoHolders, "failover loses the lock, and two hold it")},
}, {
	// phpredis with a serializer applies it to the value of SET, and not to the argument of EVAL.
	name: "set-nx-lua-json", article: cardArticle, ttl: 3, steps: append([]step{stepDrawn}, keptSteps...), lock: cards(quotedValue, compareDel),
	about: "the same, phpredis with the JSON serializer: SET lock <the value in quotes>, and Lua compares it without",
	listed: []Listed{shows(noFault, anomaly.Kept, "nobody ever unlocks: the lock stays for 3 s"),
		shows(noFault, waited, "the next join waits for all of that")},
}, {
	// phpredis without one. The room begins without a list, because it cannot be stored.
	name: "set-nx-lua-array", article: cardArticle, ttl: 3, steps: with(stepDrawn), lock: cards(ownValue, compareDel), phpArray: true,
	about: `the same, phpredis without a serializer: SET list "Array", and who reads that dies`,
	listed: []Listed{shows(noFault, anomaly.Lost, `the list becomes the word "Array"`),
		shows(noFault, waited, "the next join dies while it holds the lock")},
},
	&roomd,
}

// timestampListed is known of timestamp and of timestamp-first.
var timestampListed = []Listed{
	shows(takeOver, anomaly.TwoHolders, "takeover race"),
	shows(sameToken, anomaly.TwoHolders, "two that draw the same number both take over"),
	shows(pauseGiving, anomaly.Deleted, "unlock deletes anyone's lock"),
	shows(clockAhead, anomaly.TwoHolders, "client clocks"),
	shows(lateRelease, anomaly.Kept, "a lock with less than half a second left is not deleted"),
}

// roomd is the real coordinator, with a node for each process. The driver cannot stop it between two steps of its own. So the
// wire finds and strikes its steps on the way to Redis.
var roomd = discipline{
	name: "roomd", article: noArticle, ttl: 3, steps: lockSteps,
	about: "roomd's lock; the script that writes also checks the lock's token",
}
