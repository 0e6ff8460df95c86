package room

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

var (
	//go:embed lua/load.lua
	loadLua string
	//go:embed lua/commit.lua
	commitLua string
)

var (
	loadScript   = redis.NewScript(loadLua)
	commitScript = redis.NewScript(lockmgr.Lua + commitLua)
)

// lockPrefix and a room's id make the key of its lock.
const lockPrefix = "LockRoom:"

func usersKey(id string) string { return "Room:" + id + ":Users" }
func metaKey(id string) string  { return "Room:" + id + ":Meta" }
func eventsKey(id string) string {
	return "Room:" + id + ":Events"
}

// store reads rooms from Redis and commits what was done to them.
type store struct {
	client redis.UniversalClient
	locks  *lockmgr.Manager
	node   string
	idle   time.Duration // how long the keys of an empty room stay
}

// load reads a room in one step.
func (s *store) load(ctx context.Context, id string) (*Room, error) {
	reply, err := loadScript.Run(ctx, s.client, []string{usersKey(id), metaKey(id)}).Slice()
	if err != nil {
		return nil, fmt.Errorf("read room %s: %w", id, err)
	}
	room, err := parseRoom(id, reply)
	if err != nil {
		return nil, fmt.Errorf("read room %s: %w", id, err)
	}
	return room, nil
}

func parseRoom(id string, reply []any) (*Room, error) {
	if len(reply) != 2 {
		return nil, fmt.Errorf("%d parts instead of 2", len(reply))
	}
	meta, _ := reply[0].([]any)
	flat, _ := reply[1].([]any)
	if len(meta) != 2 || len(flat)%2 != 0 {
		return nil, errors.New("parts of the wrong length")
	}
	epoch, _ := meta[0].(string)
	var version uint64
	if text, ok := meta[1].(string); ok {
		var err error
		if version, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("field version of %s: %w", metaKey(id), err)
		}
	}
	members := make(map[string]Member, len(flat)/2)
	for pair := range slices.Chunk(flat, 2) {
		user, _ := pair[0].(string)
		text, _ := pair[1].(string)
		var m Member
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return nil, fmt.Errorf("field %q of %s: %w", user, usersKey(id), err)
		}
		if m.Seat < 0 || m.Seat >= MaxSeats {
			return nil, fmt.Errorf("field %q of %s: seat %d", user, usersKey(id), m.Seat)
		}
		members[user] = m
	}
	return NewRoom(id, epoch, version, members), nil
}

// What a commit can come to. Only committed has written anything, and any other
// error leaves the outcome open; sending the same commit again then settles it.
var (
	errLost    = errors.New("the lock is not the writer's any more")
	errStale   = errors.New("the room is at another version")
	errRefused = errors.New("redis refused the write")
)

// commit is one write of one hold: ready to be sent, again if need be.
type commit struct {
	id   string
	keys []string
	args []any
}

// prepare turns what was done to a room into a commit of the given hold, and
// counts the room's version.
func (s *store) prepare(r *Room, lock *lockmgr.Lock) (*commit, error) {
	d := r.Delta()
	event := wireEvent{Epoch: r.Epoch, Version: r.Version + 1, Changes: d.Changes, Replaced: d.Replaced}
	payload, err := json.Marshal(&event)
	if err != nil {
		return nil, err
	}
	var sets, removes []any
	for _, user := range d.Touched {
		m, ok := r.Member(user)
		if !ok {
			removes = append(removes, user)
			continue
		}
		text, err := json.Marshal(&m)
		if err != nil {
			return nil, err
		}
		sets = append(sets, user, text)
	}
	args := []any{lock.Token(), lock.Fence(), s.node, r.Epoch, r.Version, s.idle.Milliseconds(), eventsKey(r.ID), payload, len(sets) / 2}
	r.Version++
	return &commit{
		id:   r.ID,
		keys: []string{usersKey(r.ID), metaKey(r.ID)},
		args: slices.Concat(args, sets, removes),
	}, nil
}

// send sends a commit. It returns nil when it is written, also if an earlier
// sending had done it.
func (s *store) send(ctx context.Context, c *commit) error {
	answer, err := s.locks.Run(ctx, commitScript, c.id, c.keys, c.args...).StringSlice()
	if err != nil {
		return err
	}
	switch {
	case answer[0] == "done":
		return nil
	case answer[0] == "lost":
		return errLost
	case answer[0] == "stale":
		return errStale
	case answer[0] == "refused" && len(answer) == 2:
		return fmt.Errorf("%w: %s", errRefused, answer[1])
	}
	return fmt.Errorf("commit answered %q", answer)
}
