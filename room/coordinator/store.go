package coordinator

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
	"roomd/room"
)

var (
	//go:embed lua/load.lua
	loadLua string
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/room.lua
	roomLua string
	//go:embed lua/commit.lua
	commitLua string
	//go:embed lua/move.lua
	moveLua string
	//go:embed lua/forget.lua
	forgetLua string
)

// A hold is two scripts: take and commit. They are not one, because a commit whose reply is
// lost is sent again and may arrive twice. It never waits for the lock: once it has been
// answered that the lock is not its own, no copy of it can ever write.
var (
	forgetScript = redis.NewScript(forgetLua)
	loadScript   = lockmgr.NewScript(loadLua, roomLua)
	takeScript   = lockmgr.NewScript(takeLua, roomLua)
	commitScript = lockmgr.NewScript(commitLua, roomLua)
	moveScript   = lockmgr.NewScript(moveLua, roomLua)
)

// lockPrefix and a room's id make the key of its lock.
const lockPrefix = "LockRoom:"

// keys are a room's keys and its channel in Redis. On Redis Cluster they share a
// slot with the room's lock.
type keys struct {
	users, meta, log, events string
	both                     []string // users and meta
	held                     []string // what the lock guards: both, and the log if there is a journal
	channel                  any      // events, as an argument
}

func (s *store) keysOf(id string) keys {
	if s.cluster {
		id = "{" + id + "}"
	}
	k := keys{users: "Room:" + id + ":Users", meta: "Room:" + id + ":Meta", log: "Room:" + id + ":Log", events: "Room:" + id + ":Events"}
	k.both, k.channel = []string{k.users, k.meta}, k.events
	k.held = k.both
	if s.journal != "" {
		k.held = []string{k.users, k.meta, k.log}
	}
	return k
}

// store reads rooms from Redis and commits what was done to them.
type store struct {
	client  redis.UniversalClient
	cluster bool
	acks    int           // replicas that must have a commit
	wait    time.Duration // how long to wait for them
	ttlMS   string        // of the lock, in ms
	idleMS  string        // how long the keys of an empty room stay, in ms
	journal string        // about how many entries a room's log keeps; empty: there is none
}

func newStore(client redis.UniversalClient, opts Options) *store {
	_, cluster := client.(*redis.ClusterClient)
	s := &store{
		client: client, cluster: cluster, acks: opts.Replicas, wait: opts.LockTTL / 6,
		ttlMS: strconv.FormatInt(opts.LockTTL.Milliseconds(), 10), idleMS: strconv.FormatInt(opts.Idle.Milliseconds(), 10),
	}
	if opts.Journal > 0 {
		s.journal = strconv.Itoa(opts.Journal)
	}
	return s
}

// load reads a room in one step, without its lock.
func (s *store) load(ctx context.Context, id string) (*room.Room, error) {
	reply, err := redisconn.Run(ctx, s.client, loadScript, s.keysOf(id).both).Slice()
	if err != nil {
		return nil, fmt.Errorf("read room %s: %w", id, s.explain(ctx, id, err))
	}
	return s.parseRoom(id, reply)
}

// restore gives a room its settings, data and bans, as scripts return them.
func (s *store) restore(r *room.Room, fields []any) error {
	var from room.Restored
	some := false
	for i, field := range []struct {
		name string
		to   any
	}{{fieldSettings, &from.Settings}, {fieldData, &from.Data}, {fieldBans, &from.Bans}, {fieldGone, &from.Gone}} {
		text, _ := fields[i].(string)
		if text == "" {
			continue
		}
		some = true
		if err := json.Unmarshal([]byte(text), field.to); err != nil {
			return s.foreign(r.ID, fmt.Sprintf("field %s of %s holds %s (%v)", field.name, s.keysOf(r.ID).meta, shown(text), err))
		}
	}
	if some {
		r.Restore(from)
	}
	return nil
}

// parseRoom reads epoch, version, mark, the number of members, settings, data, bans, gone and the
// members as scripts return them. A room with another number of members than its last commit recorded begins
// a new epoch: Redis has evicted a key, or somebody has changed one by hand.
func (s *store) parseRoom(id string, reply []any) (*room.Room, error) {
	if len(reply) != 9 {
		return nil, fmt.Errorf("read room %s: %d parts instead of 9", id, len(reply))
	}
	epoch, _ := reply[0].(string)
	var version uint64
	if text, ok := reply[1].(string); ok {
		var err error
		if version, err = strconv.ParseUint(text, 10, 63); err != nil {
			return nil, s.foreign(id, fmt.Sprintf("field version of %s holds %s", s.keysOf(id).meta, shown(text)))
		}
	}
	flat, _ := reply[8].([]any)
	members := make(map[string]room.Member, len(flat)/2)
	for pair := range slices.Chunk(flat, 2) {
		user, _ := pair[0].(string)
		text, _ := pair[len(pair)-1].(string)
		m, err := parseMember(text)
		if err != nil {
			return nil, s.foreign(id, fmt.Sprintf("field %q of %s holds %s, which is no member as roomd writes it (%v)", user, s.keysOf(id).users, shown(text), err))
		}
		members[user] = m
	}
	r := room.NewRoom(id, room.Position{Epoch: epoch, Version: version}, members)
	r.Mark, _ = reply[2].(string)
	if err := s.restore(r, reply[4:8]); err != nil {
		return nil, err
	}
	left, _ := reply[3].(string)
	if strconv.Itoa(len(members)) != cmp.Or(left, "0") {
		r.Renew()
	}
	return r, nil
}

// traces are what a room knows of a node.
type traces struct {
	member bool          // it has members there
	at     room.Position // without a mark
	whole  bool          // the room has as many members as its last commit recorded
}

// forget deletes by:<node> from a room, unless the node has members there.
func (s *store) forget(ctx context.Context, id string, who *identity) (traces, error) {
	name, seen := string(appendString([]byte(`"node":`), who.node)), ""
	for {
		reply, err := redisconn.Run(ctx, s.client, forgetScript, s.keysOf(id).both, name, who.by, seen).Slice()
		if err != nil {
			return traces{}, s.explain(ctx, id, err)
		}
		epoch, _ := reply[1].(string)
		text, _ := reply[2].(string)
		version, _ := strconv.ParseUint(text, 10, 63)
		t := traces{member: reply[0] == "member", at: room.Position{Epoch: epoch, Version: version}, whole: reply[3] == int64(1)}
		if t.member || reply[0] == "gone" {
			return t, nil
		}
		seen, _ = reply[0].(string)
	}
}
