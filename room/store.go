package room

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

var (
	//go:embed lua/load.lua
	loadLua string
	//go:embed lua/take_quiet.lua
	takeQuietLua string
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/commit_write.lua
	commitWriteLua string
	//go:embed lua/commit.lua
	commitLua string
	//go:embed lua/forget.lua
	forgetLua string
)

// A hold is two scripts and three answers: queued, yours (take) and done (commit). They
// are not one script, because a commit whose reply is lost is sent again and may
// arrive twice: it must never wait for the lock, so that once it has been told that
// the lock is not its own, no copy of it can ever write.
var (
	forgetScript = redis.NewScript(forgetLua)
	loadScript   = redis.NewScript(loadLua)
	takeScript   = redis.NewScript(takeQuietLua + lockmgr.WithRules(takeLua))
	commitScript = redis.NewScript(commitLuaWhole)

	commitLuaWhole = commitWriteLua + lockmgr.WithRules(commitLua)
)

const (
	// lockPrefix and a room's id make the key of its lock.
	lockPrefix = "LockRoom:"

	// keepQueue is how long Redis keeps a queue that nobody asks about, in ms.
	keepQueue = "60000"
)

// keys are a room's keys and its channel in Redis. On Redis Cluster they share a
// slot with the room's lock.
type keys struct {
	users, meta, events string
	both                []string // users and meta
	channel             any      // events, as an argument
}

func (s *store) keysOf(id string) keys {
	if s.cluster {
		id = "{" + id + "}"
	}
	k := keys{users: "Room:" + id + ":Users", meta: "Room:" + id + ":Meta", events: "Room:" + id + ":Events"}
	k.both, k.channel = []string{k.users, k.meta}, k.events
	return k
}

// store reads rooms from Redis and commits what was done to them.
type store struct {
	client  redis.UniversalClient
	cluster bool
	acks    int           // replicas that must have a commit
	wait    time.Duration // how long to wait for them
	ttl     time.Duration // of the lock
	ttlMS   string        // the same in ms
	idleMS  string        // how long the keys of an empty room stay, in ms
}

// load reads a room in one step, without its lock.
func (s *store) load(ctx context.Context, id string) (*Room, error) {
	reply, err := runScript(ctx, s.client, loadScript, s.keysOf(id).both).Slice()
	if err != nil {
		return nil, fmt.Errorf("read room %s: %w", id, s.explain(ctx, id, err))
	}
	return s.parseRoom(id, reply)
}

// parseRoom reads epoch, version, mark, the number of members and the members as scripts
// return them. A room that has another number of members than its last commit left is
// not whole, and renewed: Redis has evicted a key, or somebody has changed one by hand.
func (s *store) parseRoom(id string, reply []any) (*Room, error) {
	if len(reply) != 5 {
		return nil, fmt.Errorf("read room %s: %d parts instead of 5", id, len(reply))
	}
	epoch, _ := reply[0].(string)
	var version uint64
	if text, ok := reply[1].(string); ok {
		var err error
		if version, err = strconv.ParseUint(text, 10, 63); err != nil {
			return nil, fmt.Errorf("read room %s: field version of %s: %w", id, s.keysOf(id).meta, err)
		}
	}
	flat, _ := reply[4].([]any)
	members := make(map[string]Member, len(flat)/2)
	for pair := range slices.Chunk(flat, 2) {
		user, _ := pair[0].(string)
		text, _ := pair[len(pair)-1].(string)
		m, err := parseMember(text)
		if err != nil {
			return nil, s.foreign(id, fmt.Sprintf("field %q of %s holds %s, which is no member as roomd writes it (%v)", user, s.keysOf(id).users, shown(text), err))
		}
		members[user] = m
	}
	r := NewRoom(id, epoch, version, members)
	r.mark, _ = reply[2].(string)
	left, _ := reply[3].(string)
	r.renewed = strconv.Itoa(len(members)) != cmp.Or(left, "0")
	return r, nil
}

// traces are what a room holds of a node.
type traces struct {
	member bool // it has members there
	state  roomState
}

// roomState says where a room stands.
type roomState struct {
	epoch   string
	version uint64
	whole   bool // it has as many members as its last commit left
}

// forget removes what a room remembers of a node, unless that has members there.
func (s *store) forget(ctx context.Context, id string, who *identity) (traces, error) {
	name, seen := string(appendString([]byte(`"node":`), who.node)), ""
	for {
		reply, err := runScript(ctx, s.client, forgetScript, s.keysOf(id).both, name, who.by, seen).Slice()
		if err != nil {
			return traces{}, s.explain(ctx, id, err)
		}
		epoch, _ := reply[1].(string)
		text, _ := reply[2].(string)
		version, _ := strconv.ParseUint(text, 10, 63)
		t := traces{member: reply[0] == "member", state: roomState{epoch, version, reply[3] == int64(1)}}
		if t.member || reply[0] == "gone" {
			return t, nil
		}
		seen, _ = reply[0].(string)
	}
}

// take asks for a room's lock. If it is ours now, room is the room, or nil if the
// caller has a copy already.
func (s *store) take(ctx context.Context, t *lockmgr.Ticket, id string, copied bool) (yours bool, room *Room, err error) {
	have := 0
	if copied {
		have = 1
	}
	args := []any{t.Token(), s.ttlMS, keepQueue, have}
	cmd, err := t.Ask(ctx, takeScript, args...)
	if redis.HasErrorPrefix(err, "OOM") {
		cmd, err = t.Ask(ctx, takeScript, append(args, "full")...)
	}
	if err != nil {
		return false, nil, s.explain(ctx, id, err)
	}
	reply, err := cmd.Slice()
	if err != nil {
		return false, nil, s.explain(ctx, id, err)
	}
	switch {
	case reply[0] == "queued":
		return false, nil, nil
	case reply[0] == "yours" && len(reply) == 1:
		return true, nil, nil
	case reply[0] == "yours":
		room, err = s.parseRoom(id, reply[1:])
		return true, room, err
	}
	return false, nil, fmt.Errorf("take answered %q", reply[0])
}

// What a commit can come to besides done. Only done has written anything, and any
// other error leaves the outcome open; sending the same commit again then settles
// it.
var (
	errLost    = errors.New("the lock is not the writer's any more")
	errStale   = errors.New("the room is at another version")
	errRefused = errors.New("redis refused the write")
	errUnacked = errors.New("too few replicas have the write") // so far
)

// commit is one write of one hold: ready to be sent, again if need be.
type commit struct {
	id    string
	event *wireEvent // nil if there is nothing to write
	epoch string     // the room's after it
	mark  string     // by which the room is known after it
	keys  keys
	args  []any
	rest  rest // what stands at args[restArg]

	unheard string // once it is written: why Redis did not take the event, if so
}

// token returns the value that the lock has to hold.
func (c *commit) token() string { return c.args[0].(string) }

// The modes of a commit; see its script.
const (
	modeHeld   = ""
	modeKeep   = "keep"
	modeElided = "elide"
	modeVoid   = "void"
)

// rest is what a commit's script seldom needs. None of it holds a space.
type rest struct {
	heir, ttl, keep, mode, epoch, idle string
}

func (r rest) String() string {
	if r.heir == "" && r.mode == modeHeld && r.epoch == "" && r.idle == "" {
		return ""
	}
	return strings.Join([]string{r.heir, r.ttl, r.keep, r.mode, r.epoch, r.idle}, " ")
}

const restArg = 9 // the index of the rest among a commit's arguments

// void makes of an elided commit one that settles it. That needs more than sending
// it again: the lock may be free at any time later, and so a copy of the commit that
// is still on its way could write then.
func (c *commit) void() {
	if c.rest.mode == modeElided {
		c.rest.mode = modeVoid
		c.args[restArg] = c.rest.String()
	}
}

// prepare turns what was done to a room into a commit of the hold under token. heir
// is the next token of this node, or empty.
func (s *store) prepare(r *Room, k keys, who *identity, token, heir, mode string) *commit {
	c := &commit{id: r.ID, keys: k, epoch: r.Epoch, mark: markOf(token), rest: rest{heir: heir, ttl: s.ttlMS, keep: keepQueue, mode: mode}}
	text := make([]byte, 0, 128+256*len(r.changes)) // of all that is encoded
	var event []byte
	if r.Changed() {
		if r.Epoch == "" || r.renewed {
			c.epoch = newName()
			c.rest.epoch = c.epoch
		}
		if len(r.members) == 0 {
			c.rest.idle = s.idleMS
		}
		c.event = &wireEvent{c.epoch, r.Version + 1, c.mark, who.node, r.changes}
		text = c.event.append(text)
		event = text
	}
	c.args = make([]any, 0, restArg+1+2*len(r.changes))
	c.args = append(c.args, token, r.mark, who.by, r.Version+1, event, k.channel, r.size, len(r.members), nil, c.rest.String())
	sets := 0
	for i := range r.changes {
		user := r.changes[i].User
		if m, ok := r.members[user]; ok {
			from := len(text)
			text = m.append(text)
			c.args = append(c.args, user, text[from:])
			sets++
		}
	}
	c.args[restArg-1] = sets
	for i := range r.changes {
		user := r.changes[i].User
		if _, ok := r.members[user]; !ok {
			c.args = append(c.args, user)
		}
	}
	return c
}

// markOf returns the mark of the commit under a token: the end of its UUID, 62 random
// bits. The commit's script takes the same.
func markOf(token string) string { return token[max(0, len(token)-17):] }

// place is where a commit has left the next token.
type place int

const (
	placeWaits place = iota // in the line, or so it may be
	placeNone               // nowhere
	placeHolds              // it has the lock
)

// places are what the commit's script calls them. It says nothing (a false, which is
// nil here) of a token that waits.
var places = map[any]place{int64(0): placeNone, int64(1): placeHolds}

// send sends a commit. Without an error it is written, now or by an earlier
// sending. next says what became of the heir, and room is what the room is when the
// error is errStale.
func (s *store) send(ctx context.Context, t *lockmgr.Ticket, c *commit) (next place, room *Room, err error) {
	var cmd *redis.Cmd
	if s.acks == 0 || c.event == nil { // what is not written need not be acknowledged
		cmd = t.Run(ctx, commitScript, c.args...)
	} else if cmd, err = s.sendAcked(ctx, t, c); err != nil {
		return next, nil, err
	}
	reply, err := cmd.Slice()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"): // found before anything was written
		return next, nil, fmt.Errorf("%w: %w", errRefused, s.explain(ctx, c.id, err))
	case err != nil:
		return next, nil, err
	}
	switch {
	case reply[0] == "done":
		if len(reply) > 1 {
			next = places[reply[1]]
		}
		if len(reply) > 2 {
			c.unheard, _ = reply[2].(string)
		}
		return next, nil, nil
	case reply[0] == "lost":
		return next, nil, errLost
	case reply[0] == "stale":
		if room, err = s.parseRoom(c.id, reply[1:]); err != nil {
			return next, nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		return next, room, errStale
	case reply[0] == "refused" && len(reply) == 2:
		return next, nil, fmt.Errorf("%w: %s", errRefused, reply[1])
	}
	return next, nil, fmt.Errorf("commit answered %q", reply[0])
}
