package room

import (
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
)

// A hold is two scripts and three answers: queued, yours (take) and done (commit). They
// are not one script, because a commit whose reply is lost is sent again and may
// arrive twice: it must never wait for the lock, so that once it has been told that
// the lock is not its own, no copy of it can ever write.
var (
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
	idleMS  any           // how long the keys of an empty room stay, in ms
}

// load reads a room in one step, without its lock.
func (s *store) load(ctx context.Context, id string) (*Room, error) {
	reply, err := runScript(ctx, s.client, loadScript, s.keysOf(id).both).Slice()
	if err != nil {
		return nil, fmt.Errorf("read room %s: %w", id, err)
	}
	return s.parseRoom(id, reply)
}

// parseRoom reads epoch, version, mark and members as scripts return them.
func (s *store) parseRoom(id string, reply []any) (*Room, error) {
	if len(reply) != 4 {
		return nil, fmt.Errorf("read room %s: %d parts instead of 4", id, len(reply))
	}
	epoch, _ := reply[0].(string)
	var version uint64
	if text, ok := reply[1].(string); ok {
		var err error
		if version, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("read room %s: field version of %s: %w", id, s.keysOf(id).meta, err)
		}
	}
	flat, _ := reply[3].([]any)
	members := make(map[string]Member, len(flat)/2)
	for pair := range slices.Chunk(flat, 2) {
		user, _ := pair[0].(string)
		text, _ := pair[len(pair)-1].(string)
		m, err := parseMember(text)
		if err != nil {
			return nil, fmt.Errorf("read room %s: field %q of %s: %w", id, user, s.keysOf(id).users, err)
		}
		members[user] = m
	}
	r := NewRoom(id, epoch, version, members)
	r.mark, _ = reply[2].(string)
	return r, nil
}

// take asks for a room's lock. If it is ours now, room is the room, or nil if the
// caller has a copy already.
func (s *store) take(ctx context.Context, t *lockmgr.Ticket, id string, copied bool) (yours bool, room *Room, err error) {
	have := 0
	if copied {
		have = 1
	}
	cmd, err := t.Ask(ctx, takeScript, t.Token(), s.ttlMS, keepQueue, have)
	if err != nil {
		return false, nil, err
	}
	reply, err := cmd.Slice()
	if err != nil {
		return false, nil, err
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
	heir, ttl, keep, mode, epoch string
}

func (r rest) String() string {
	if r.heir == "" && r.mode == modeHeld && r.epoch == "" {
		return ""
	}
	return strings.Join([]string{r.heir, r.ttl, r.keep, r.mode, r.epoch}, " ")
}

const restArg = 8 // the index of the rest among a commit's arguments

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
	if r.Epoch == "" || r.renewed {
		c.epoch = newName()
		c.rest.epoch = c.epoch
	}
	text := make([]byte, 0, 128+256*len(r.changes)) // of all that is encoded
	var event []byte
	if r.Changed() {
		c.event = &wireEvent{c.epoch, r.Version + 1, c.mark, who.node, r.changes}
		text = c.event.append(text)
		event = text
	}
	c.args = make([]any, 0, restArg+1+2*len(r.changes))
	c.args = append(c.args, token, r.mark, who.by, r.Version+1, event, k.channel, s.expiry(r), nil, c.rest.String())
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

// expiry says what becomes of the expiry of a room's keys: it begins when the last
// member leaves, and ends when somebody comes.
func (s *store) expiry(r *Room) any {
	switch empty, wasEmpty := len(r.members) == 0, r.size == 0; {
	case empty && !wasEmpty:
		return s.idleMS
	case wasEmpty && !empty:
		return 0
	}
	return ""
}

// place is where a commit has left the next token.
type place int

const (
	placeWaits place = iota // in the line, or so it may be
	placeNone               // nowhere
	placeHolds              // it has the lock
)

// send sends a commit. Without an error it is written, now or by an earlier
// sending. next says what became of the heir, and room is what the room is when the
// error is errStale.
func (s *store) send(ctx context.Context, t *lockmgr.Ticket, c *commit) (next place, room *Room, err error) {
	var cmd *redis.Cmd
	if s.acks == 0 {
		cmd = t.Run(ctx, commitScript, c.args...)
	} else if cmd, err = s.sendAcked(ctx, t, c); err != nil {
		return next, nil, err
	}
	reply, err := cmd.Slice()
	if err != nil {
		return next, nil, err
	}
	switch {
	case reply[0] == "done":
		switch reply[len(reply)-1] {
		case int64(1):
			next = placeHolds
		case int64(0):
			next = placeNone
		}
		return next, nil, nil
	case reply[0] == "lost":
		return next, nil, errLost
	case reply[0] == "stale":
		if room, err = s.parseRoom(c.id, reply[1:]); err == nil {
			err = errStale
		}
		return next, room, err
	case reply[0] == "refused" && len(reply) == 2:
		return next, nil, fmt.Errorf("%w: %s", errRefused, reply[1])
	}
	return next, nil, fmt.Errorf("commit answered %q", reply[0])
}
