package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
	"roomd/room/coordinator/tally"
)

// Coordinator runs actions on rooms, each under its room's lock. It is safe for
// concurrent use.
type Coordinator struct {
	opts       Options
	lifetime   lifetime
	locks      *lockmgr.Manager
	store      *store
	feeds      *feeds
	membership *membership
	workers    *workers
	lobby      *lobby
	episodes   *episodes
	beacon     *beacon
	invariants *invariants
}

// New returns a Coordinator that keeps its rooms on client, and sends nothing
// yet. It returns a [room.ErrInvalid] or lockmgr.ErrInvalid that names the field if
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
	// Events and wake-ups come on one connection, in the order of commits: when the lock
	// is handed to this node, its copy of the room has followed what went before.
	counted := new(tally.Tally) // only with a Report
	if opts.Report != nil {
		opts.Trace = opts.Trace.counting(counted)
	}
	episodes := newEpisodes(opts)
	hub := pubsub.New(client, func(err error) { episodes.events.Happened(err) })
	locks, err := lockmgr.New(client, lockmgr.Options{Prefix: lockPrefix, TTL: opts.LockTTL, Poll: opts.LockPoll, Pipelined: true, Hub: hub})
	if err != nil {
		return nil, err
	}
	c := &Coordinator{opts: opts, lifetime: newLifetime(), locks: locks, store: newStore(client, opts), episodes: episodes}
	c.feeds = newFeeds(hub, c.store, episodes, opts.Trace)
	c.membership = newMembership(c.store, opts, c.lifetime, episodes)
	c.workers = newWorkers(c)
	if c.lobby, err = newLobby(locks, c.store, opts, episodes); err != nil {
		return nil, err
	}
	c.feeds.alive = func() []string { return c.membership.lease.names.kept(opts.Grace) }
	c.feeds.lost = c.membership.registration.removeUnanswered
	c.feeds.renew = func(ctx context.Context, id, epoch string) {
		if _, err := c.workers.run(ctx, id, room.Renew(epoch)); err != nil && ctx.Err() == nil {
			episodes.epochs.Happened(err, "room", id)
		}
	}
	c.beacon, c.invariants = newBeacon(c, counted), newInvariants(c)
	if opts.Report != nil {
		c.membership.more = append(c.membership.more, c.beacon.loop, c.invariants.loop)
	}
	c.membership.rejoin = c.feeds.rejoin
	c.membership.eviction.run, c.membership.registration.run = c.workers.run, c.workers.run
	c.membership.registration.visit = c.workers.visit
	return c, nil
}

// Node returns the coordinator's name in what it writes. It changes when the node's
// lease was lost. On Redis Cluster it begins with a hash tag.
func (c *Coordinator) Node() string {
	who, _ := c.membership.lease.holder()
	return who.node
}

// Start announces the node: from now on it is known to others, and removes the
// members of those that have died. Without it that begins with the first action.
// It fails with [room.ErrUnavailable] or [room.ErrClosed].
func (c *Coordinator) Start(ctx context.Context) error { return c.membership.start(ctx) }

// SetAddress sets Options.Address, for a node that learns it only when it listens. Call it
// before Start and the first action. It fails with [room.ErrInvalid].
func (c *Coordinator) SetAddress(address string) error {
	if err := checkAddress(address); err != nil {
		return err
	}
	c.membership.lease.address = address
	return nil
}

// AnswerFor makes fn say whether a session of this node is still to be in a room. Call it
// before the first action; fn must return at once and may not call the Coordinator.
// Without it nobody is asked.
//
// It is for rooms of which Redis has an old copy again: that holds members who have left
// since. Nobody else would remove those under the name of a node that lives.
func (c *Coordinator) AnswerFor(fn func(room, session string) bool) {
	c.membership.registration.answerFor = fn
}

// Do runs an action on the room of that id and returns when it is committed or
// has failed. Actions of one coordinator on one room run in the order of their
// calls.
//
// It fails with [room.ErrInvalid], [room.ErrNotMember], [room.ErrDuplicate], [room.ErrFull] or
// [room.ErrRoomClosed] by the room's settings, [room.ErrConflict] if the action has another
// IfVersion, an error of Rules.Seating, [room.ErrBusy], [room.ErrUnavailable], [room.ErrClosed] or the cause of
// ctx, and then nothing was written; or with [room.ErrUnknown].
func (c *Coordinator) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	start := time.Now()
	result, err := c.do(ctx, id, a, start)
	if done := c.opts.Trace.Done; done != nil {
		done(a.Kind(), err, time.Since(start))
	}
	return result, err
}

func (c *Coordinator) do(ctx context.Context, id string, a room.Action, now time.Time) (room.Result, error) {
	if err := room.CheckID(id); err != nil {
		return room.Result{}, err
	}
	a, err := a.Check(c.opts.Rules)
	if err != nil {
		return room.Result{}, err
	}
	for {
		result, err := c.workers.runSince(ctx, id, a, now)
		var stays *room.DuplicateError
		if !errors.As(err, &stays) {
			return result, err
		}
		again, differs := a.KnowingDead(stays.Node)
		if !differs || !c.membership.isDead(ctx, stays.Node) {
			return result, err
		}
		a, now = again, time.Now()
	}
}

// Read returns a room as it is, without taking its lock, unless it has to put the
// room right first. It fails with [room.ErrInvalid], [room.ErrUnavailable] or the cause
// of ctx.
func (c *Coordinator) Read(ctx context.Context, id string) (room.Snapshot, error) {
	if err := room.CheckID(id); err != nil {
		return room.Snapshot{}, err
	}
	known := c.feeds.at(id)
	r, err := c.store.load(ctx, id)
	if err == nil && r.Renewed() { // not whole: what remains of it is a new epoch
		if _, err = c.workers.run(ctx, id, room.Renew(r.Epoch)); err == nil {
			r, err = c.store.load(ctx, id)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return room.Snapshot{}, context.Cause(ctx)
	case err != nil:
		return room.Snapshot{}, fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	c.feeds.compare(id, known, r.Position)
	return r.Snapshot(), nil
}

// Watch calls fn for everything that is committed to the room from now on, in
// order, until stop is called; after stop has returned fn is not called again.
// fn must return at once and may not call Watch or stop.
//
// It returns when the subscription is established, so that a Read or a Do after it
// misses nothing. It fails with [room.ErrInvalid], [room.ErrUnavailable],
// [room.ErrClosed] or the cause of ctx.
func (c *Coordinator) Watch(ctx context.Context, id string, fn func(*room.Event)) (stop func(), err error) {
	if err := room.CheckID(id); err != nil {
		return nil, err
	}
	return c.feeds.watch(ctx, id, fn)
}

// Ping asks Redis whether it is there. It fails with [room.ErrUnavailable].
func (c *Coordinator) Ping(ctx context.Context) error {
	if err := c.store.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w: %w", room.ErrUnavailable, err)
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
	c.workers.refuse()
	c.membership.refuse()
	stop := context.AfterFunc(ctx, c.lifetime.kill)
	c.lifetime.shut()
	c.membership.loops.Wait()
	c.workers.close()
	if err := c.membership.lease.end(context.WithoutCancel(ctx)); err != nil { // it has bounds of its own
		c.opts.Log.Warn("the node's lease could not be given back; it expires", "error", err)
	}
	c.lobby.cache.Close()
	c.locks.Close()
	c.feeds.close()
	c.episodes.close()
	if !stop() {
		return context.Cause(ctx)
	}
	c.lifetime.kill()
	return nil
}

// newName returns a random name for a node or an epoch. It is short, because it
// is in every member and every event.
func newName() string { return strings.ToLower(rand.Text()[:16]) } // 80 bits
