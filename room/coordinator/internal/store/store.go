// Package store reads and writes rooms in Redis: keys, scripts, and the text of members, events and journals. It
// decides nothing about a room; package room does.
//
// Start with [New] and [Store.Load]. [Store.Acquire] asks for a room's lock, [Store.Prepare] turns the changes of a
// room into a [Commit], and [Store.Send] and [Move.Send] write commits. Each of them detects in the same atomic step
// that Redis was restarted or replaced (incarnation.go).
//
// No goroutine outlives a call.
package store

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/coordinator/internal/keys"
)

var (
	//go:embed lua/load.lua
	loadLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/room.lua
	roomLua string
	//go:embed lua/commit.lua
	commitLua string
	//go:embed lua/move.lua
	moveLua string
	//go:embed lua/unregister.lua
	unregisterLua string
)

// The scripts on rooms. A writer without a hold sends a single commit script while the lock is free and nobody waits.
// If the reply is lost the commit is sent again, and both copies may arrive. Three rules prevent a write after the
// answer that there was none:
//   - Each sending has its own token (see lockmgr.Slot.Ask). Before the answer to a later sending counts, Redis has
//     buried the earlier tokens: their copies can neither acquire the lock nor wait for it. A buried token stays in the
//     queue, so its copy does not find the lock free.
//   - A commit applies only to the commit id on which it builds, and that id never comes again.
//   - by:<node> holds the request id of the node's last commit, and the request id stands for the content. So "done"
//     always refers to the commit that was sent.
//
// A writer with a hold sends its token alone. Once Redis has answered that this token does not hold the lock, no copy
// of the commit can ever write: the token does not wait, and never gets the lock again.
var (
	LoadScript       = NewScript(loadLua, roomLua)
	AcquireScript    = NewScript(acquireLua, roomLua)
	CommitScript     = NewScript(commitLua, roomLua)
	MoveScript       = NewScript(moveLua, roomLua)
	UnregisterScript = redis.NewScript(unregisterLua)
)

// Keys are a room's keys and channel in Redis. On a Cluster they share the hash slot of the room's lock.
type Keys struct {
	Users, Meta, Log, Said, Events string

	Both    []string // Users and Meta
	Held    []string // keys that the lock guards: Both, Said, and Log if there is a journal
	channel any      // Events, ready to be an argument

	node    string // the node of byField
	byField any    // ready to be an argument
}

// Options say how a [Store] keeps rooms.
type Options struct {
	KeyPrefix string // of all keys and channels

	LockTTL  time.Duration
	Replicas int           // number of replicas that must have a commit
	Idle     time.Duration // how long Redis keeps an empty room
	Unused   time.Duration // how long it keeps an empty room that nobody has configured
	Journal  int           // approximate number of entries in a room's log; 0: no journal
	Feed     bool          // keep the log for Idle at least
}

// Store reads and commits rooms in Redis. It is safe for concurrent use.
type Store struct {
	Client     redis.UniversalClient
	Servers    *Servers
	keys.Space // the names of keys and channels
	keyTypes
	retention

	acks int
	wait time.Duration // limits WAIT for replicas
}

// retention says how long Redis keeps a lock and a room, in ms, and how much of a journal.
type retention struct {
	ttl          string    // of the lock
	asks         [3]string // see asks
	idle, unused string
	journal      string // number of entries; empty: there is none
	feed         bool
}

// mostWait limits WAIT for one sending of a commit. It stays below the 250 ms in which a [lockmgr.Slot] expects an
// answer; otherwise slow replicas would leave each commit in doubt, and it would be sent twice.
const mostWait = 200 * time.Millisecond

// New returns a Store that uses client. It sends nothing.
func New(client redis.UniversalClient, opts Options) *Store {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	_, cluster := client.(*redis.ClusterClient)
	names := keys.Space{Prefix: opts.KeyPrefix, Cluster: cluster}
	s := &Store{
		Client: client, Servers: newServers(client), Space: names, keyTypes: keyTypes{client, names},
		retention: retention{ttl: ms(opts.LockTTL), asks: asks(ms(opts.LockTTL)), idle: ms(opts.Idle),
			unused: ms(opts.Unused)},
		acks: opts.Replicas, wait: min(opts.LockTTL/6, mostWait),
	}
	if opts.Journal > 0 {
		s.journal, s.feed = strconv.Itoa(opts.Journal), opts.Feed
	}
	return s
}

func (s *Store) KeysOf(id string) *Keys {
	k := &Keys{Users: s.Room(id, keys.Users), Meta: s.Room(id, keys.Meta), Log: s.Room(id, keys.Log),
		Said: s.Room(id, keys.Said), Events: s.Room(id, keys.Events)}
	k.Both, k.channel = []string{k.Users, k.Meta}, k.Events
	k.Held = []string{k.Users, k.Meta, k.Said, k.Log}
	if s.journal == "" {
		k.Held = k.Held[:3]
	}
	return k
}

// MasterOf returns the address of the master that has the room; empty without a Cluster.
func (s *Store) MasterOf(ctx context.Context, id string) string {
	return redisconn.MasterOf(ctx, s.Client, s.KeysOf(id).Meta)
}

// Load reads a room atomically, without its lock.
func (s *Store) Load(ctx context.Context, id string) (*room.Room, error) {
	r, _, err := s.Examine(ctx, id)
	return r, err
}

// Examine is Load, and also returns the number of members that the room's last commit recorded.
func (s *Store) Examine(ctx context.Context, id string) (r *room.Room, recorded int, err error) {
	k := s.KeysOf(id)
	reply, err := s.run(ctx, k.Meta, LoadScript, func(script *redis.Script) (*redis.Cmd, error) {
		return s.eval(ctx, script, k.Both)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read room %s: %w", id, s.explain(ctx, id, err))
	}
	if r, err = s.parseRoom(ctx, id, reply); err != nil {
		return nil, 0, err
	}
	left, _ := reply[3].(string)
	recorded, _ = strconv.Atoi(left)
	return r, recorded, nil
}

// Acquire asks for a room's lock. ours reports whether the slot's token has it; otherwise the token waits. copied says
// that the caller has a copy of the room; without one, read is the room if the token has the lock.
func (s *Store) Acquire(ctx context.Context, slot *lockmgr.Slot, id string, copied bool) (ours bool, read *room.Room,
	err error) {
	known := 0
	if copied {
		known = 1
	}
	reply, err := s.run(ctx, s.KeysOf(id).Meta, AcquireScript, func(script *redis.Script) (*redis.Cmd, error) {
		return askFully(func(full string) (*redis.Cmd, error) { return slot.Ask(ctx, script, s.ttl+full, known) })
	})
	switch {
	case err != nil:
		return false, nil, s.explain(ctx, id, err)
	case reply[0] == "queued":
		return false, nil, nil
	case reply[0] == "yours" && len(reply) == 1:
		return true, nil, nil
	case reply[0] == "yours":
		read, err = s.parseRoom(ctx, id, reply[1:])
		return true, read, err
	}
	return false, nil, fmt.Errorf("acquire.lua answered %q", reply[0])
}

// Run runs a script on keys that no lock guards, and returns its reply. It fails with a [room.ErrForeign] if one of
// the keys is of another type.
func (s *Store) Run(ctx context.Context, script *Script, keys []string, args ...any) ([]any, error) {
	reply, err := s.run(ctx, keys[len(keys)-1], script, func(script *redis.Script) (*redis.Cmd, error) {
		return s.eval(ctx, script, keys, args...)
	})
	return reply, s.Explain(ctx, err, keys...)
}

// RunPlain is Run for a script that does not depend on the incarnation.
func (s *Store) RunPlain(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	cmd := redisconn.Run(ctx, s.Client, script, keys, args...)
	if err := cmd.Err(); err != nil {
		cmd.SetErr(s.Explain(ctx, err, keys...))
	}
	return cmd
}

// eval runs a script without a lock. Its error is in cmd, and err is nil. It waits while a hash slot moves.
func (s *Store) eval(ctx context.Context, script *redis.Script, keys []string, args ...any) (cmd *redis.Cmd,
	err error) {
	err = redisconn.UntilMoved(ctx, func() error {
		err := redisconn.UntilKnown(func() error {
			cmd = script.EvalSha(ctx, s.Client, keys, args...)
			return cmd.Err()
		}, func() error { return s.Servers.Load(ctx, keys[0], script) })
		redisconn.SeekMaster(ctx, s.Client, err)
		return err
	})
	if err != nil {
		cmd.SetErr(err)
	}
	return cmd, nil
}

// Unregister deletes a room's record of a node's last commit, unless the node has members there, and reports whether it
// has.
func (s *Store) Unregister(ctx context.Context, id, node string) (member bool, err error) {
	name, seen := string(appendString([]byte(`"node":`), node)), ""
	for {
		state, err := redisconn.Run(ctx, s.Client, UnregisterScript, s.KeysOf(id).Both, name, byField(node), seen).Text()
		switch {
		case err != nil:
			return false, s.explain(ctx, id, err)
		case state == "member", state == "gone":
			return state == "member", nil
		}
		seen = state
	}
}

// Timers reads a room's timers. A value that is not roomd's counts as none.
func (s *Store) Timers(ctx context.Context, id string) (*room.Timers, error) {
	text, err := s.Client.HGet(ctx, s.KeysOf(id).Meta, fieldTimers).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	timers := new(room.Timers)
	_ = json.Unmarshal([]byte(text), timers)
	return timers, nil
}

// Member reads a user's membership in a room: the zero value if there is none.
func (s *Store) Member(ctx context.Context, id, user string) (m room.Member, err error) {
	text, err := s.Client.HGet(ctx, s.KeysOf(id).Users, user).Result()
	if err != nil {
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return m, err
	}
	m, _ = ParseMember(text)
	return m, nil
}

// Kept reads the newest messages that a room keeps, at most as many as most says, and the room's epoch.
func (s *Store) Kept(ctx context.Context, id string, most int) (kept room.Kept, err error) {
	k := s.KeysOf(id)
	var epoch *redis.StringCmd
	var newest *redis.XMessageSliceCmd
	err = redisconn.UntilMoved(ctx, func() error {
		_, err := s.Client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			epoch, newest = p.HGet(ctx, k.Meta, "epoch"), p.XRevRangeN(ctx, k.Said, "+", "-", int64(most))
			return nil
		})
		redisconn.SeekMaster(ctx, s.Client, err)
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return kept, fmt.Errorf("read the messages of room %s: %w", id, s.explain(ctx, id, err))
	}
	kept.Epoch = epoch.Val()
	for _, m := range slices.Backward(newest.Val()) {
		text, _ := m.Values[saidField].(string)
		var said room.Said
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			return kept, fmt.Errorf("read the messages of room %s: entry %s: %w", id, m.ID, err)
		}
		kept.Said = append(kept.Said, said)
	}
	return kept, nil
}

const saidField = "message"

// JournalField is the field of a journal's entry that holds the commit, encoded as its event.
const JournalField = "commit"

// Journal reads at most limit entries of a room's journal, oldest first. from is the start of XRANGE, such as "-".
func (s *Store) Journal(ctx context.Context, id, from string, limit int) (messages []redis.XMessage, err error) {
	err = redisconn.UntilMoved(ctx, func() error {
		messages, err = s.Client.XRangeN(ctx, s.KeysOf(id).Log, from, "+", int64(limit)).Result()
		redisconn.SeekMaster(ctx, s.Client, err)
		return err
	})
	return messages, s.explain(ctx, id, err)
}

// ParseEntry returns a journal entry's commit, and its time by Redis' clock. It fails for an entry that is not roomd's.
func ParseEntry(m redis.XMessage) (c *room.Commit, at time.Time, err error) {
	text, _ := m.Values[JournalField].(string)
	if c, err = ParseCommit(text); err != nil {
		return nil, at, err
	}
	ms, _, _ := strings.Cut(m.ID, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	return c, time.UnixMilli(n), err
}

// NewName returns a random name for a node or an epoch. It is short, because every member and event contains it.
func NewName() string { return strings.ToLower(rand.Text()[:16]) } // 80 bits
