package coordinator

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

var (
	//go:embed lua/lease.lua
	leaseLua string
	//go:embed lua/lease_rooms.lua
	leaseRoomsLua string
	//go:embed lua/lease_end.lua
	leaseEndLua string

	leaseScript      = redis.NewScript(leaseLua)
	leaseRoomsScript = redis.NewScript(leaseRoomsLua)
	leaseEndScript   = redis.NewScript(leaseEndLua)
)

// stoppedKept is how long Redis remembers, after the grace, that a node has stopped and
// not died: until others have removed its members.
const stoppedKept = time.Hour

// leaseStore writes leases, and the rooms of their nodes, to Redis.
type leaseStore struct {
	store   *store
	ttl     time.Duration // of a lease
	grace   time.Duration // of the node's members
	address string        // of the node; may be empty
	shared  string        // the settings that other nodes compare with theirs
}

// send begins a lease, or prolongs the one that Redis has had with a beat.
func (s *leaseStore) send(ctx context.Context, who *identity, had int64) (rooms int, err error) {
	beat, prolong := who.beat.Add(1), ""
	if had > 0 {
		prolong = strconv.FormatInt(had, 10)
	}
	keys, args := s.keysOf(who), []any{who.node, s.ttl.Milliseconds(), s.grace.Milliseconds(), beat, s.address + " " + s.shared, prolong}
	rooms, err = s.run(ctx, leaseScript, keys, args)
	if err == nil && rooms >= 0 {
		who.sure = beat
	}
	return rooms, err
}

// run runs a script, and waits for the replicas if they have to have its writes.
func (s *leaseStore) run(ctx context.Context, script *redis.Script, keys []string, args []any) (int, error) {
	if s.store.acksNodes() {
		return s.store.runAcked(ctx, script, keys, args...)
	}
	return redisconn.Run(ctx, s.store.client, script, keys, args...).Int()
}

// errLeaseOver: the node's lease is over in Redis.
var errLeaseOver = errors.New("the node's lease is over")

// The verbs of note, as lease_rooms.lua has them.
const (
	noteAdd    = "add"
	noteRemove = "remove"
)

// note records in Redis that the node may have members in some rooms (noteAdd), or that it
// has none there (noteRemove). If it fails it may have been carried out; but it is not once
// a later one has been.
func (s *leaseStore) note(ctx context.Context, who *identity, verb string, ids ...string) error {
	if verb == noteAdd {
		who.rooms.add(ids...) // also if it fails
	}
	keys, args := s.keysOf(who)[:2], make([]any, 2, 2+len(ids))
	for _, id := range ids {
		args = append(args, id)
	}
	for {
		beat := who.beat.Load()
		args[0], args[1] = verb, beat
		done, err := s.run(ctx, leaseRoomsScript, keys, args)
		switch {
		case err != nil:
			who.beat.Add(1) // what comes after this must not be undone by it
			return err
		case done == 1:
			return nil
		case who.beat.Load() == beat:
			return errLeaseOver
		}
	}
}

// stopped ends a lease because the node stops.
func (s *leaseStore) stopped(ctx context.Context, who *identity) error {
	keys := append(s.keysOf(who), nodeStoppedKey(who.node))
	return redisconn.Run(ctx, s.store.client, leaseEndScript, keys, who.node, s.address, (stoppedKept + s.grace).Milliseconds()).Err()
}

// split returns the home and the rest of a node's name.
func (s *leaseStore) split(node string) (home, name string) {
	if !s.store.cluster {
		return "", node
	}
	return splitNode(node)
}

// keysOf returns the keys of a lease. On Cluster they share a slot.
func (s *leaseStore) keysOf(who *identity) []string {
	list := nodesKey
	if home, _ := s.split(who.node); home != "" {
		list += ":" + home
	}
	return []string{nodeKey(who.node), nodeRoomsKey(who.node), list}
}
