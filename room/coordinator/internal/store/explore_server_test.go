package store

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// server is what Redis has of one room, as far as it matters for what can happen. It does not change.
type server struct {
	holder        string   // the token that the lock holds
	queue, buried []string // tokens: in order of their positions; in any order
	fence         bool     // a number is kept
	meta, users   map[string]string
	incarnation   string
	written       []string // the actions whose commits are in the room: what the room itself cannot show
	text          string   // all of that
}

// done returns the state with its text.
func (d server) done() *server {
	slices.Sort(d.buried)
	slices.Sort(d.written)
	d.text = fmt.Sprint(d.holder, d.queue, d.buried, d.fence, d.meta, d.users, d.incarnation, d.written)
	return &d
}

// request is one sending to Redis.
type request struct {
	kind, token string // commit, take, inherit, leave; the token that it names
	ids         string // other tokens, with commas between: those to be buried
	writer      int
	incarnation string   // for which the script is
	content     *content // of a commit
	copied      bool     // the writer has a copy of the room
	late        bool     // nobody waits for the reply any more
	text        string   // all of that
	resent      bool     // the worker has sent that commit before
}

func (r request) named() request {
	r.text = fmt.Sprint(r.kind, " ", r.token, " ", r.ids, " ", r.writer, r.incarnation, r.copied, r.late, r.resent)
	if r.content != nil {
		r.text += r.content.text
	}
	return r
}

// effect is what a request does.
type effect struct {
	server *server
	reply  []any
	wakes  []string // the tokens that are told that they have the lock
	fault  string   // the rule that was broken, if one was
}

// executor carries requests out on the embedded Redis, each of them on each state once.
type executor struct {
	mini    *miniredis.Miniredis
	client  *redis.Client
	scripts scriptSet
	known   map[string]effect
	ran     int
}

// scriptSet are those of the writers.
type scriptSet struct {
	commit, acquire *Script
	inherit, leave  *redis.Script
}

// ofLock returns the text of a script of the lock manager.
func ofLock(name string) string {
	text, err := os.ReadFile("../../../../lockmgr/lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

func shippedScripts() scriptSet {
	return scriptSet{CommitScript, AcquireScript, lockmgr.NewScript(ofLock("inherit")), lockmgr.NewScript(ofLock("abandon"))}
}

const (
	lockKey, metaKey, usersKey = "LockRoom:a", "Room:a:Meta", "Room:a:Users"
	foreignToken               = "foreign"
)

var (
	clock   = time.UnixMicro(2e15) // of the server; it has stepped back a little
	drawn   = clock.UnixMicro() + 5
	inOrder = clock.UnixMicro() - 1000
)

// long returns a token as the lock manager has it. The short form is t, writer, ., number.
func long(token string) string {
	var writer, serial int
	if n, _ := fmt.Sscanf(token, "t%d.%d", &writer, &serial); n < 2 {
		return token
	}
	return fmt.Sprintf("a:%08d-0000-4000-8000-%012d", writer, serial)
}

func short(token string) string {
	if len(token) != 38 {
		return token
	}
	writer, _ := strconv.Atoi(token[2:10])
	serial, _ := strconv.Atoi(token[26:])
	return fmt.Sprintf("t%d.%d", writer, serial)
}

// load makes the embedded Redis what d says.
func (x *executor) load(d *server) {
	x.mini.FlushDB()
	if d.holder != "" {
		_ = x.mini.Set(lockKey, long(d.holder))
		x.mini.SetTTL(lockKey, time.Second)
	}
	for i, token := range d.queue {
		_, _ = x.mini.ZAdd(lockKey+":Queue", float64(inOrder)+float64(i), long(token))
	}
	for _, token := range d.buried {
		_, _ = x.mini.ZAdd(lockKey+":Queue", 1e18+2e15, long(token))
	}
	if len(d.queue)+len(d.buried) > 0 {
		x.mini.SetTTL(lockKey+":Queue", time.Minute)
	}
	if d.fence {
		_ = x.mini.Set(lockKey+":Fence", strconv.FormatInt(drawn, 10))
		x.mini.SetTTL(lockKey+":Fence", time.Minute)
	}
	for key, fields := range map[string]map[string]string{metaKey: d.meta, usersKey: d.users} {
		for field, value := range fields {
			x.mini.HSet(key, field, value)
		}
	}
}

// save returns what the embedded Redis has, and what was broken on the way.
func (x *executor) save(before *server) (after server, fault string) {
	after = server{incarnation: before.incarnation, written: before.written, meta: x.hash(metaKey), users: x.hash(usersKey)}
	holder, _ := x.mini.Get(lockKey)
	after.holder = short(holder)
	scores, _ := x.mini.SortedSet(lockKey + ":Queue")
	order := slices.SortedFunc(maps.Keys(scores), func(a, b string) int { return int(scores[a] - scores[b]) })
	for _, token := range order {
		position := scores[token]
		if position >= 1e18 {
			after.buried = append(after.buried, short(token))
			continue
		}
		after.queue = append(after.queue, short(token))
		if old := position < float64(inOrder+1000); before.fence && !old && position <= float64(drawn) {
			fault = "a position was drawn that is not larger than the last number"
		}
	}
	last, err := x.mini.Get(lockKey + ":Fence")
	after.fence = err == nil
	last, marked := strings.CutSuffix(last, ".")
	if number, _ := strconv.ParseInt(last, 10, 64); before.fence && number < drawn {
		fault = "the fence went back"
	}
	if marked && len(scores) > 0 {
		fault = "the last number says that there is no queue"
	}
	for _, key := range x.mini.Keys() {
		if strings.HasPrefix(key, lockKey) && !strings.Contains(key, ":Wake:") && x.mini.TTL(key) <= 0 {
			fault = "the key " + key + " has no end"
		}
	}
	return after, fault
}

func (x *executor) hash(key string) map[string]string {
	fields, _ := x.mini.HKeys(key)
	all := make(map[string]string, len(fields))
	for _, field := range fields {
		all[field] = x.mini.HGet(key, field)
	}
	return all
}

// run carries a request out.
func (x *executor) run(t *testing.T, before *server, r request) effect {
	key := before.text + "\n" + r.text
	if known, ok := x.known[key]; ok {
		return known
	}
	x.ran++
	x.load(before)
	var e effect
	var err error
	script, keys, args := x.command(r)
	reply, err := script.Run(t.Context(), x.client, keys, args...).Result()
	redistest.FatalIf(t, err != nil, "%v %v", r.text, err)
	switch reply {
	case int64(0):
		e.reply = doneAlone
	case int64(1):
		e.reply = conflict
	default:
		e.reply = reply.([]any)
	}
	after, fault := x.save(before)
	e.wakes, e.fault = x.messages(before, fault)
	if r.kind == "commit" {
		after.written, fault = judge(before, &after, r, e.reply)
		if events, _ := x.mini.List("Room:a:Events"); fault == "" && (len(events) > 1 || len(events) == 1 != (after.meta["mark"] != before.meta["mark"])) {
			fault = fmt.Sprintf("%d events told of a commit", len(events))
		}
		e.fault = cmp.Or(e.fault, fault)
	}
	e.server = after.done()
	x.known[key] = e
	return e
}

// command returns the script of a request, its keys and arguments. What a script publishes it appends to a
// list, so that it can be read afterwards.
func (x *executor) command(r request) (script *redis.Script, keys []string, args []any) {
	keys = []string{lockKey, lockKey + ":Queue", lockKey + ":Fence"}
	args = []any{"RPUSH", "250", long(r.token)}
	var ids strings.Builder
	for _, token := range strings.FieldsFunc(r.ids, func(c rune) bool { return c == ',' }) {
		ids.WriteString(long(token)[2:])
	}
	switch r.kind {
	case "inherit":
		return x.scripts.inherit, keys, append(args, ids.String())
	case "abandon":
		return x.scripts.leave, keys, append(args, ids.String())
	case "acquire":
		copied := 0
		if r.copied {
			copied = 1
		}
		return x.scripts.acquire.on(r.incarnation), append(keys, usersKey, metaKey), append(args, "2000", copied)
	}
	return x.scripts.commit.on(r.incarnation), append(keys, usersKey, metaKey), append(args, r.content.args...)
}

// messages returns which tokens were woken.
func (x *executor) messages(before *server, fault string) (woken []string, _ string) {
	for _, key := range x.mini.Keys() {
		if !strings.HasPrefix(key, lockKey+":Wake:") {
			continue
		}
		list, _ := x.mini.List(key)
		for _, message := range list {
			words := strings.Fields(message)
			if number, _ := strconv.ParseInt(words[0], 10, 64); before.fence && number <= drawn {
				fault = "a fence was drawn that is not larger than the last number"
			}
			woken = append(woken, short(words[2]))
		}
	}
	return woken, fault
}

// judge returns the actions that are in the room after a commit, and the rule that the commit has broken.
func judge(before, after *server, r request, reply []any) (written []string, fault string) {
	version := func(s *server) int { n, _ := strconv.Atoi(s.meta["version"]); return n }
	wrote := !maps.Equal(before.meta, after.meta) || !maps.Equal(before.users, after.users)
	switch {
	case wrote:
	case reply[0] == "done" && !r.content.writes && before.meta["mark"] != r.content.base:
		return before.written, "it is confirmed by another room"
	default:
		return before.written, ""
	}
	written = slices.Concat(before.written, r.content.actions)
	switch repeated := slices.IndexFunc(r.content.actions, func(a string) bool { return slices.Contains(before.written, a) }); {
	case reply[0] != "done":
		fault = fmt.Sprintf("it was written, and answered %q", reply[0])
	case before.holder != "" && before.holder != r.token:
		fault = "it was written while " + before.holder + " held the lock"
	case before.holder == "" && len(before.queue) > 0 && before.queue[0] != r.token:
		fault = "it was written while " + before.queue[0] + " waited"
	case slices.Contains(before.buried, r.token) && before.holder != r.token:
		fault = "it was written, and its token is buried"
	case repeated >= 0:
		fault = r.content.actions[repeated] + " is in the room twice"
	case before.meta["epoch"] == after.meta["epoch"] && version(after) != version(before)+1:
		fault = fmt.Sprintf("version %d follows version %d", version(after), version(before))
	case before.meta["incarnation"] != r.incarnation && before.meta["epoch"] == after.meta["epoch"]:
		fault = "an epoch goes on although commits may be lost"
	}
	return written, fault
}
