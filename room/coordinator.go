package room

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/pubsub"
)

// Result is what an action came to.
type Result struct {
	Seat     int    // taken, kept or freed
	Node     string // the name under which this node did it
	Snapshot        // the room right after the commit, also one that refused the action
}

// Coordinator runs actions on rooms, each under its room's lock. It is safe for
// concurrent use.
type Coordinator struct {
	opts     Options
	locks    *lockmgr.Manager
	store    *store
	feeds    *feeds
	troubles *troubles

	lease *lease

	open   context.Context // ends when Close begins
	shut   context.CancelFunc
	guards sync.WaitGroup // goroutines that keep the lease, look for ghosts and tidy up
	vigils []*vigil       // of the one that looks for ghosts

	life context.Context // ends when Close has no more patience
	kill context.CancelFunc
	busy sync.WaitGroup // goroutines that work at a room

	requests  sync.Pool                       // of *request whose outcome was received
	answerFor func(room, session string) bool // nil: nobody is asked
	timeout   *redisconn.SharedTimeout        // of requests that are to end within the TTL of a lock

	mu       sync.Mutex
	desks    map[string]*desk // guarded by mu: rooms that are worked at, or were of late
	resting  list.List        // guarded by mu: of desks, those that rest, longest first
	copies   int              // guarded by mu: what they count for
	sweeper  *time.Timer      // guarded by mu: closes desks; nil if none rests
	watching bool             // guarded by mu: the guards run
	closed   bool             // guarded by mu
}

// New returns a Coordinator that keeps its rooms on client, and sends nothing
// yet. It returns an [ErrInvalid] or lockmgr.ErrInvalid that names the field if
// an argument cannot be used. The client stays the caller's to close, after
// Close.
//
// For actions to end in time when Redis does not answer, the client needs
// ContextTimeoutEnabled.
func New(client redis.UniversalClient, opts Options) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	// Events and wake-ups come on one connection, in the order of commits: when it
	// is this node's turn, its copy of the room has followed what went before.
	troubles := newTroubles(opts)
	hub := pubsub.New(client, func(err error) { troubles.events.Happened(err) })
	locks, err := lockmgr.New(client, lockmgr.Options{Prefix: lockPrefix, TTL: opts.LockTTL, Poll: opts.LockPoll, Pipelined: true, Hub: hub})
	if err != nil {
		return nil, err
	}
	_, cluster := client.(*redis.ClusterClient)
	c := &Coordinator{
		opts:     opts,
		locks:    locks,
		troubles: troubles,
		store:    &store{client: client, cluster: cluster, acks: opts.Replicas, wait: opts.LockTTL / 6, ttl: opts.LockTTL, ttlMS: strconv.FormatInt(opts.LockTTL.Milliseconds(), 10), idleMS: strconv.FormatInt(opts.Idle.Milliseconds(), 10)},
		desks:    make(map[string]*desk),
	}
	c.requests.New = newRequest
	c.feeds = newFeeds(hub, c.store, troubles)
	c.feeds.renew = func(ctx context.Context, id, epoch string, version uint64) {
		if _, err := c.run(ctx, id, renew(epoch, version)); err != nil && ctx.Err() == nil {
			troubles.epochs.Happened(err, "room", id)
		}
	}
	c.lease = newLease(c.store, opts)
	for _, list := range nodeLists(cluster) {
		c.vigils = append(c.vigils, &vigil{list: list, seen: make(map[string]sighting)})
	}
	c.feeds.alive = func() []string { return c.lease.names.kept(opts.Grace) }
	c.feeds.forgot = c.forgot
	c.open, c.shut = context.WithCancel(context.Background())
	c.life, c.kill = context.WithCancel(context.Background())
	c.timeout = redisconn.NewSharedTimeout(c.life, opts.LockTTL/2) // then there is time to ask what came of it
	return c, nil
}

// Node returns the coordinator's name in what it writes. It changes when the node's
// lease was lost. On Redis Cluster it begins with a hash tag.
func (c *Coordinator) Node() string {
	who, _ := c.lease.holder()
	return who.node
}

// Do runs an action on the room of that id and returns when it is committed or
// has failed. Actions of one coordinator on one room run in the order of their
// calls.
//
// It fails with [ErrInvalid], [ErrFull], [ErrSeatTaken], [ErrNotMember], [ErrDuplicate],
// [ErrBusy], [ErrUnavailable], [ErrClosed] or the cause of ctx, and then nothing
// was written; or with [ErrUnknown].
func (c *Coordinator) Do(ctx context.Context, id string, a Action) (Result, error) {
	if err := CheckID(id); err != nil {
		return Result{}, err
	}
	if err := a.check(c.opts.Rules); err != nil {
		return Result{}, err
	}
	for {
		result, err := c.run(ctx, id, a)
		var stays *duplicate
		if !errors.As(err, &stays) || a.kind != KindJoin || a.again || stays.node == a.dead || !c.isDead(ctx, stays.node) {
			return result, err
		}
		a.dead = stays.node
	}
}

// isDead reports whether a node's lease is over. If nobody can say, it is not.
func (c *Coordinator) isDead(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, c.opts.LockTTL)
	defer cancel()
	alive, err := c.store.client.Exists(ctx, nodeKey(node)).Result()
	return err == nil && alive == 0
}

// run runs an action that is in order.
func (c *Coordinator) run(ctx context.Context, id string, a Action) (Result, error) {
	now := time.Now()
	a.at = now.UnixMilli()
	r := c.requests.Get().(*request)
	r.action, r.deadline, r.gone, r.taken = a, now.Add(c.opts.LockWait), false, false
	d, err := c.enqueue(id, r)
	if err != nil {
		return Result{}, err
	}
	select {
	case o := <-r.done:
		c.requests.Put(r)
		return o.result, o.err
	case <-ctx.Done():
	}
	if d.abandon(r) {
		return Result{}, fmt.Errorf("gave up waiting for room %s: %w", id, context.Cause(ctx))
	}
	select {
	case o := <-r.done:
		return o.result, o.err
	default:
		return Result{}, fmt.Errorf("gave up while room %s was written: %w: %w", id, ErrUnknown, context.Cause(ctx))
	}
}

// enqueue puts a request at the end of its room's queue, and sees to it that
// somebody works there.
func (c *Coordinator) enqueue(id string, r *request) (*desk, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	d, open := c.desks[id]
	if !open {
		var err error
		if d, err = c.deskLocked(id); err != nil {
			return nil, err
		}
	}
	d.push(r)
	switch {
	case d.rest != nil:
		c.resumeLocked(d)
		c.busy.Go(func() { c.serve(d) })
	case !open:
		c.busy.Go(func() { c.serve(d) })
	}
	return d, nil
}

// deskLocked opens a desk for a room that has none.
func (c *Coordinator) deskLocked(id string) (*desk, error) {
	keys := c.store.keysOf(id)
	ticket, err := c.locks.Ticket(id, keys.both...)
	if err != nil {
		return nil, err
	}
	d := &desk{queue: queue{id: id}, keys: keys, ticket: ticket}
	c.desks[id] = d
	return d, nil
}

// Read returns a room as it stands, without taking its lock, unless it has to put the
// room right first. It fails with [ErrInvalid], [ErrUnavailable] or the cause of ctx.
func (c *Coordinator) Read(ctx context.Context, id string) (Snapshot, error) {
	if err := CheckID(id); err != nil {
		return Snapshot{}, err
	}
	told := c.feeds.at(id)
	r, err := c.store.load(ctx, id)
	if err == nil && r.renewed { // not whole: what is left of it is a new epoch
		if _, err = c.run(ctx, id, renew(r.Epoch, r.Version)); err == nil {
			r, err = c.store.load(ctx, id)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return Snapshot{}, context.Cause(ctx)
	case err != nil:
		return Snapshot{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.feeds.compare(id, told, roomState{epoch: r.Epoch, version: r.Version})
	return r.Snapshot(), nil
}

// Watch calls fn for everything that is committed to the room from now on, in
// order, until stop is called; after stop has returned fn is not called again.
// fn must return at once and may not call Watch or stop.
//
// It returns when the subscription stands, so that a Read or a Do after it
// misses nothing. It fails with [ErrInvalid], [ErrClosed] or the cause of ctx.
func (c *Coordinator) Watch(ctx context.Context, id string, fn func(*Event)) (stop func(), err error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	return c.feeds.watch(ctx, id, fn)
}

// Ping asks Redis whether it is there. It fails with [ErrUnavailable].
func (c *Coordinator) Ping(ctx context.Context) error {
	if err := c.store.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Close takes no more actions, waits for those that run and ends the watches. The
// node's members keep their seats for Options.Grace; then other nodes remove those
// whose sessions have not come back elsewhere.
// When ctx ends first it stops waiting for locks and returns the cause of ctx; the
// lease it gives back all the same, for which it takes a second at most.
// Either way no goroutine of the coordinator is left.
func (c *Coordinator) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()

	stop := context.AfterFunc(ctx, c.kill)
	c.shut()
	c.guards.Wait()
	c.busy.Wait()
	c.closeDesks()
	if err := c.lease.end(context.WithoutCancel(ctx)); err != nil { // it has bounds of its own
		c.opts.Log.Warn("the node's lease could not be given back; it expires", "error", err)
	}
	c.locks.Close()
	c.feeds.close()
	c.troubles.close()
	if !stop() {
		return context.Cause(ctx)
	}
	c.kill()
	return nil
}

// newName returns a random name for a node or an epoch. It is short, because it
// stands in every member and every event.
func newName() string { return strings.ToLower(rand.Text()[:16]) } // 80 bits
