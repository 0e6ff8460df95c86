package room

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	takeScript   = redis.NewScript(takeQuietLua + lockmgr.Lua + takeLua)
	commitScript = redis.NewScript(commitLuaWhole)

	commitLuaWhole = commitWriteLua + lockmgr.Lua + commitLua
)

const (
	// lockPrefix and a room's id make the key of its lock.
	lockPrefix = "LockRoom:"

	// keepQueue is how long Redis keeps a queue that nobody asks about, in ms.
	keepQueue = 60_000
)

// keys are a room's keys and its channel in Redis. On Redis Cluster they share a
// slot with the room's lock.
type keys struct {
	users, meta, events string
	both                []string // users and meta
}

func (s *store) keysOf(id string) keys {
	if s.cluster {
		id = "{" + id + "}"
	}
	k := keys{users: "Room:" + id + ":Users", meta: "Room:" + id + ":Meta", events: "Room:" + id + ":Events"}
	k.both = []string{k.users, k.meta}
	return k
}

// store reads rooms from Redis and commits what was done to them.
type store struct {
	client  redis.UniversalClient
	cluster bool
	acks    int           // replicas that must have a commit
	wait    time.Duration // how long to wait for them
	ttl     time.Duration // of the lock
	idle    time.Duration // how long the keys of an empty room stay
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
func (s *store) take(ctx context.Context, t *lockmgr.Ticket, id string, k keys, copied bool) (yours bool, room *Room, err error) {
	have := 0
	if copied {
		have = 1
	}
	reply, err := t.Run(ctx, takeScript, k.both, t.Token(), s.ttl.Milliseconds(), keepQueue, have).Slice()
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

// standing returns epoch and version in the form in which Redis holds them.
func standing(r *Room) (epoch, version string) {
	if r == nil || r.Epoch == "" {
		return "", ""
	}
	return r.Epoch, strconv.FormatUint(r.Version, 10)
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
}

// token returns the value that the lock has to hold.
func (c *commit) token() string { return c.args[0].(string) }

// The modes of a commit; see ARGV[16] of its script.
const (
	modeHeld   = ""
	modeElided = "elide"
	modeVoid   = "void"
)

// void makes of an elided commit one that settles it. That needs more than sending
// it again: the lock may be free at any time later, and so a copy of the commit that
// is still on its way could write then.
func (c *commit) void() {
	if at := &c.args[modeArg]; *at == modeElided {
		*at = modeVoid
	}
}

const modeArg = 13 // the index of the mode among a commit's arguments

// prepare turns what was done to a room into a commit of the hold under token. heir
// is the next token of this node, or empty.
func (s *store) prepare(r *Room, k keys, who *identity, token, heir, mode string) *commit {
	epoch, version := standing(r)
	c := &commit{id: r.ID, keys: k, epoch: epoch, mark: markOf(token)}
	if epoch == "" || r.renewed {
		c.epoch = newName()
	}
	var event []byte
	if r.Changed() {
		c.event = &wireEvent{c.epoch, r.Version + 1, c.mark, who.node, r.changes}
		event = c.event.append(make([]byte, 0, 128+160*len(r.changes)))
	}
	c.args = make([]any, 0, 15+2*len(r.changes))
	c.args = append(c.args, token, heir, s.ttl.Milliseconds(), keepQueue, who.by,
		epoch, version, c.epoch, event, k.events, s.expiry(r), 0, r.Version+1, mode, r.mark)
	sets, at := 0, len(c.args)-4
	for i := range r.changes {
		user := r.changes[i].User
		if m, ok := r.members[user]; ok {
			c.args = append(c.args, user, m.append(make([]byte, 0, 160)))
			sets++
		}
	}
	c.args[at] = sets
	for i := range r.changes {
		user := r.changes[i].User
		if _, ok := r.members[user]; !ok {
			c.args = append(c.args, user)
		}
	}
	return c
}

// markOf returns the mark of the commit under a token: the end of its UUID, 48 random
// bits. The commit's script takes the same.
func markOf(token string) string { return token[max(0, len(token)-12):] }

// expiry says what becomes of the expiry of a room's keys: it begins when the last
// member leaves, and ends when somebody comes.
func (s *store) expiry(r *Room) any {
	switch empty, wasEmpty := len(r.members) == 0, r.size == 0; {
	case empty && !wasEmpty:
		return s.idle.Milliseconds()
	case wasEmpty && !empty:
		return 0
	}
	return ""
}

// send sends a commit. Without an error it is written, now or by an earlier
// sending. passed says that the lock is the heir's, and room is what the room is
// when the error is errStale.
func (s *store) send(ctx context.Context, t *lockmgr.Ticket, c *commit) (passed bool, room *Room, err error) {
	var cmd *redis.Cmd
	if s.acks == 0 {
		cmd = t.Run(ctx, commitScript, c.keys.both, c.args...)
	} else if cmd, err = s.sendAcked(ctx, t, c); err != nil {
		return false, nil, err
	}
	reply, err := cmd.Slice()
	if err != nil {
		return false, nil, err
	}
	switch {
	case reply[0] == "done":
		_, passed = reply[len(reply)-1].(int64)
		return passed, nil, nil
	case reply[0] == "lost":
		return false, nil, errLost
	case reply[0] == "stale":
		if room, err = s.parseRoom(c.id, reply[1:]); err == nil {
			err = errStale
		}
		return false, room, err
	case reply[0] == "refused" && len(reply) == 2:
		return false, nil, fmt.Errorf("%w: %s", errRefused, reply[1])
	}
	return false, nil, fmt.Errorf("commit answered %q", reply[0])
}
