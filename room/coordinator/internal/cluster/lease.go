package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

var (
	//go:embed lua/lease.lua
	leaseLua string
	//go:embed lua/lease_end.lua
	leaseEndLua string

	// The scripts on leases.
	LeaseScript = redis.NewScript(leaseLua)
	EndScript   = redis.NewScript(leaseEndLua)
)

// stoppedTTL is how long, after the grace, Redis remembers that a node has stopped and not died: until other nodes
// have removed its members.
const stoppedTTL = time.Hour

// overTTL is how long Redis remembers that a lease was ended: until no earlier request can arrive. Package lockmgr
// assumes the same of its requests.
const overTTL = 10 * time.Minute

const (
	// maxTags limits the other hash slots tried in one attempt.
	maxTags = 4

	// endTimeout limits the release of the lease.
	endTimeout = time.Second

	// listChunk is the number of rooms added to Node:<node>:Rooms per request.
	listChunk = 1000
)

// lease protects the node's name. It is a key in Redis with a TTL that the node prolongs (C. Gray, D. Cheriton,
// "Leases: an efficient fault-tolerant mechanism for distributed file cache consistency", 1989). Once it is over,
// other nodes remove the members of that name. So a node never commits under a name whose lease is over by its own
// clock. It takes a new name if the key is gone, because the node was stalled or Redis lost its data; or if the key
// is older than expected, because Redis restarted from an old copy, which contains members who have left since.
//
// On a Cluster a node also moves to a new name in another hash slot if the master with its lease does not answer until
// the lease is over, or refuses writes. Members who do not join again under the new name are removed as a dead node's.
type lease struct {
	store   *store.Store
	ttl     time.Duration
	grace   time.Duration // of the node's members
	address string        // of the node; may be empty
	shared  string        // the settings that other nodes compare with their own

	// Callers share one attempt; it continues when one of them gives up.
	attempts singleflight.Group
	life     context.Context // ends attempts
	kill     context.CancelFunc

	mu    sync.Mutex
	who   *Identity // guarded by mu
	until time.Time // guarded by mu: end of the lease by our clock, at the earliest; zero before the first
	unfit *Identity // guarded by mu: the name that the next attempt gives up unless it can prolong the lease
	began time.Time // guarded by mu: when the present lease began

	// The node's current and recent names, and until when their leases were certainly valid. Other nodes remove the
	// members of a name only when its lease has been over for the grace.
	names map[string]time.Time // guarded by mu: times are by our clock
}

func newLease(st *store.Store, opts Options) *lease {
	l := &lease{
		store: st, ttl: opts.Settings.NodeTTL, grace: opts.Settings.Grace, address: opts.Address,
		shared: opts.Settings.inLease(),
		who:    &Identity{Node: withHashTag(opts.Name, st.Cluster)}, names: make(map[string]time.Time),
	}
	l.life, l.kill = context.WithCancel(context.Background())
	return l
}

// refresh prolongs the lease, or begins the first one. If the lease was lost, refresh begins one under a new name,
// and returns true. Only l.attempts runs it.
func (l *lease) refresh(ctx context.Context) (renewed bool, err error) {
	l.mu.Lock()
	who, until, abandoned, began := l.who, l.until, l.unfit != nil, l.began
	l.unfit = nil
	l.mu.Unlock()
	tag, given := l.split(who.Node)
	if until.IsZero() {
		err = l.begin(ctx, who)
		if errors.Is(err, errLeaseOver) { // an earlier attempt began this lease, and it was ended since
			err = l.begin(ctx, &Identity{Node: tag + store.NewName()})
		}
		if err != nil && l.store.Cluster {
			err = l.move(ctx, tag, given, err)
		}
		return false, err
	}
	name := store.NewName()
	kept, err := l.prolong(ctx, who, until)
	if kept || err != nil && !abandoned && time.Now().Before(until) {
		return false, err
	}
	if err == nil && time.Now().Before(until) {
		l.forgetName(who.Node) // Redis has lost the lease
	}
	if time.Since(began) < l.ttl/3 { // Redis loses leases as fast as they are made
		_ = pause.For(ctx, l.ttl/30)
	}
	if err == nil {
		err = l.begin(ctx, &Identity{Node: tag + name})
	}
	if err != nil && l.store.Cluster {
		err = l.move(ctx, tag, name, err)
	}
	return err == nil, err
}

// abandon makes the next attempt move to another hash slot unless it gets a lease in the present one at once. It does
// nothing if who is not the present name any more. An attempt that already runs may miss the call.
func (l *lease) abandon(who *Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.who == who {
		l.unfit = who
	}
}

// abandoned reports whether abandon was called and no attempt has seen it yet.
func (l *lease) abandoned(who *Identity) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unfit == who
}

// prolong prolongs a lease unless it is over in Redis, and reports whether it did, even with an error. If Redis lacks
// rooms of the name, prolong writes them again. If Redis has more, because other nodes restored them, prolong adds
// them to who: see [Node.List].
func (l *lease) prolong(ctx context.Context, who *Identity, until time.Time) (kept bool, err error) {
	ctx, cancel := l.attempt(ctx, until)
	defer cancel()
	before, sent := who.rooms.size(), time.Now()
	rooms, err := l.send(ctx, who, who.acknowledged)
	if err != nil || rooms < 0 {
		return false, err
	}
	l.set(who, sent)
	switch now := who.rooms.size(); {
	case rooms > max(before, now):
		listed, err := l.store.Client.SMembers(ctx, l.store.NodeRooms(who.Node)).Result()
		who.rooms.add(listed...)
		return true, err
	case rooms >= min(before, now):
		return true, nil
	}
	for chunk := range slices.Chunk(who.rooms.all(), listChunk) {
		if err := l.record(ctx, who, recordAdd, chunk...); err != nil {
			return true, fmt.Errorf("record the node's rooms again: %w", err)
		}
	}
	return true, nil
}

// begin begins a lease on a name, and makes that the node's name. It fails with errLeaseOver if a lease on this name
// was ended before.
func (l *lease) begin(ctx context.Context, who *Identity) error {
	ctx, cancel := l.attempt(ctx, time.Time{})
	defer cancel()
	sent := time.Now()
	rooms, err := l.send(ctx, who, 0)
	if err == nil && rooms < 0 {
		err = errLeaseOver
	}
	if err == nil {
		l.set(who, sent)
	}
	return err
}

// move begins a lease on name in a hash slot of another master. why is the failure of the present one.
func (l *lease) move(ctx context.Context, tag, name string, why error) error {
	failed, away := []error{why}, []string{l.masterOf(ctx, tag)}
	for _, i := range rand.Perm(len(hashTags)) {
		if ctx.Err() != nil || len(failed) > maxTags {
			break
		}
		master := l.masterOf(ctx, hashTags[i])
		if slices.Contains(away, master) {
			continue
		}
		err := l.begin(ctx, &Identity{Node: hashTags[i] + name})
		if err == nil {
			return nil
		}
		failed, away = append(failed, err), append(away, master)
	}
	return errors.Join(failed...)
}

// attempt limits a request to the rest of the lease, but never to less than a TTL (on a Cluster a third of one). So a
// short stall does not cost the lease.
func (l *lease) attempt(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	least := l.ttl
	if l.store.Cluster {
		least /= 3
	}
	return context.WithTimeout(ctx, max(least, time.Until(until)))
}

func (l *lease) set(who *Identity, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.who != who {
		l.unfit = nil
	}
	if l.who != who || l.until.IsZero() {
		l.began = sent
	}
	l.who, l.until = who, sent.Add(l.ttl)
	l.names[who.Node] = l.until
}

// end releases the lease, even if ctx has ended; the grace of the node's members begins. No attempt follows.
func (l *lease) end(ctx context.Context) error {
	l.kill()
	_, _, _ = l.attempts.Do("", func() (any, error) { return nil, room.ErrClosed }) // waits for the running attempt
	l.mu.Lock()
	who, first := l.who, l.until.IsZero()
	l.until = time.Now()
	l.mu.Unlock()
	if first {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return l.stopped(ctx, who)
}

// forgetName records that Redis lost a name's lease too early: nobody knows when its members will be removed.
func (l *lease) forgetName(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names, name)
}

// keptNames returns the names whose members have certainly not been removed.
func (l *lease) keptNames() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(l.names, func(_ string, until time.Time) bool {
		until = until.Add(l.grace)
		// The monotonic clock stops while the machine is suspended, the wall clock jumps.
		return !now.Before(until) || !now.Round(0).Before(until.Round(0))
	})
	return slices.Collect(maps.Keys(l.names))
}

// send begins a lease or, if had (the last acknowledged heartbeat) is not 0, prolongs it. rooms is the number of rooms
// that Redis has for the name; -1 if the lease is over.
func (l *lease) send(ctx context.Context, who *Identity, had int64) (rooms int, err error) {
	heartbeat, prolong := who.heartbeat.Add(1), ""
	if had > 0 {
		prolong = strconv.FormatInt(had, 10)
	}
	keys, args := append(l.keysOf(who), l.store.Over(who.Node)),
		[]any{who.Node, l.ttl.Milliseconds(), l.grace.Milliseconds(), heartbeat, l.address + " " + l.shared, prolong}
	rooms, err = l.store.RunNumber(ctx, LeaseScript, keys, args...)
	if err == nil && rooms >= 0 {
		who.acknowledged = heartbeat
	}
	return rooms, err
}

// stopped ends a lease in Redis and leaves a record that the node stopped.
func (l *lease) stopped(ctx context.Context, who *Identity) error {
	keys := append(l.keysOf(who), l.store.Stopped(who.Node), l.store.Over(who.Node))
	return l.store.RunPlain(ctx, EndScript, keys, who.Node, l.address, (stoppedTTL + l.grace).Milliseconds(),
		overTTL.Milliseconds()).Err()
}
