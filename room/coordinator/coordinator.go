package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/pubsub"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/feed"
	"roomd/room/coordinator/internal/lobby"
	"roomd/room/coordinator/internal/nodes"
	"roomd/room/coordinator/internal/relay"
	"roomd/room/coordinator/internal/store"
	"roomd/room/coordinator/internal/timers"
	"roomd/room/coordinator/internal/work"
	"roomd/room/ratelog"
)

// Coordinator runs actions on rooms. Redis takes a commit only while the room's lock is free or the Coordinator's
// own. It is safe for concurrent use.
type Coordinator struct {
	*operators // operators.go
	*history   // journal.go, feed.go

	opts    Options
	life    lifetime
	store   *store.Store
	locks   *lockmgr.Manager
	feeds   *feed.Feeds
	node    *cluster.Node
	workers *work.Pool
	lobby   *lobby.Lobby
	timers  *timers.Timers
	relay   *relay.Relay
	logs    *ratelog.Set

	start sync.Once // begins the loops
	loops sync.WaitGroup
}

// lifetime ends the parts of a coordinator in two steps.
type lifetime struct {
	open context.Context // ends when Close begins
	shut context.CancelFunc

	life context.Context // ends when Close stops waiting
	kill context.CancelFunc
}

func newLifetime() (l lifetime) {
	l.open, l.shut = context.WithCancel(context.Background())
	l.life, l.kill = context.WithCancel(context.Background())
	return l
}

// New returns a Coordinator that keeps its rooms in client's Redis, and sends nothing yet. It fails with
// [room.ErrInvalid] or lockmgr.ErrInvalid, which name the field. The caller closes client after Close.
//
// Set ContextTimeoutEnabled on client: otherwise actions do not end in time when Redis does not answer.
func New(client redis.UniversalClient, opts Options) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	tally := nodes.NewTally()
	if opts.Report != nil {
		opts.Trace = opts.Trace.Counting(tally)
	}
	// An iteration of the lease's loop may take a timeout and a pause; an episode of logging must last longer.
	logs := ratelog.NewSet(opts.Log, max(ratelog.Quiet, 3*opts.NodeTTL))
	st := store.New(client, opts.store())
	// Events and wake-ups come on one connection, in the order of commits: when this node gets the lock, its copy of
	// the room already has the commits before.
	lost := logs.Warn("events: connection to Redis lost, making a new one")
	hub := pubsub.New(client, func(err error) {
		st.Servers.ConnectionLost()
		lost.Happened(err)
	})
	locks, err := lockmgr.New(client, lockmgr.Options{
		Prefix: st.LockPrefix(), TTL: opts.LockTTL, Poll: opts.LockPoll, Pipelined: true, Hub: hub,
		Load: st.Servers.Load,
	})
	if err != nil {
		return nil, err
	}
	life := newLifetime()
	ws := work.New(life.open, life.life, hub, locks, st, opts.work(), logs)
	c := &Coordinator{
		operators: newOperators(opts, st, locks, ws, tally), opts: opts, life: life, store: st, locks: locks,
		logs:    logs,
		workers: ws, feeds: ws.Feeds, node: ws.Node, lobby: ws.Lobby, timers: ws.Timers, relay: ws.Relay,
	}
	c.history = &history{store: st, locks: locks, relay: ws.Relay, feed: opts.Feed, read: c.Read}
	return c, nil
}

// Node returns the node's name, which changes when its lease is lost. On Redis Cluster it begins with a hash tag.
func (c *Coordinator) Node() string { return c.node.Name() }

// Start announces the node: other nodes know it, and it removes the members of dead nodes. Without Start, the first
// action does so. Start fails with [room.ErrUnavailable] or [room.ErrClosed], and then leaves no goroutine.
func (c *Coordinator) Start(ctx context.Context) error {
	if err := c.node.Start(ctx); err != nil {
		return err
	}
	c.start.Do(c.begin)
	return nil
}

// begin starts all loops except the node's own.
func (c *Coordinator) begin() {
	c.timers.Start()
	c.relay.Start()
	if c.opts.Report != nil {
		c.loops.Go(func() { c.beacon.Loop(c.life.open) })
		c.loops.Go(func() { c.checks.Loop(c.life.open) })
		c.lobby.Start()
	}
}

// SetAddress sets Options.Address, for a node that learns it only when it listens. Call it before Start and the first
// action. It fails with [room.ErrInvalid].
func (c *Coordinator) SetAddress(address string) error {
	if err := checkAddress(address); err != nil {
		return err
	}
	c.node.SetAddress(address)
	return nil
}

// AnswerFor sets fn, which reports whether a session of this node still belongs in a room. Call it before the first
// action; fn must return at once and may not call the Coordinator. Without fn no session is questioned.
//
// It is needed after Redis came back with an old copy of a room, which lists members who have left since: other
// nodes do not remove the members of a node that lives.
func (c *Coordinator) AnswerFor(fn func(room, session string) bool) { c.node.AnswerFor(fn) }

// Do runs an action on the room of that id and returns when it is committed or has failed. Actions of one coordinator
// on one room run in the order of their calls. In an idle room the caller's goroutine waits for Redis: if Redis does
// not answer, Do may return up to 0.3 s after the end of ctx.
//
// It fails with [room.ErrUnknown] if the outcome is not known. With any other error nothing was written:
// [room.ErrInvalid] or one of those beside it, one of Rules.Seating, or the cause of ctx.
func (c *Coordinator) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	start := time.Now()
	result, err := c.do(ctx, id, a, start)
	if done := c.opts.Trace.Done; done != nil {
		done(room.KindOf(a), err, time.Since(start))
	}
	return result, err
}

func (c *Coordinator) do(ctx context.Context, id string, a room.Action, now time.Time) (room.Result, error) {
	if err := room.CheckID(id); err != nil {
		return room.Result{}, err
	}
	a, err := room.Check(a, c.opts.Rules)
	if err != nil {
		return room.Result{}, err
	}
	c.start.Do(c.begin)
	if timed, is := a.(timedAction); is {
		return c.doTimed(ctx, id, timed)
	}
	for {
		result, err := c.workers.RunSince(ctx, id, a, now)
		refused, is := errors.AsType[*room.RefusedError](err)
		join, joins := a.(room.Join)
		if !is || !joins || refused.Node == "" {
			return result, err
		}
		again, differs := join.KnowingDead(refused.Node)
		if !differs || !c.node.IsDead(ctx, refused.Node) {
			return result, err
		}
		a, now = again, time.Now()
	}
}

// timedAction is an action that may set timers: a [room.SetTimer] or a [room.Txn].
type timedAction interface {
	Timed(due func(in int64) (int64, error)) (room.Action, error)
}

// doTimed runs an action that may set timers: it announces them first to learn when they are due. After an unknown
// outcome the announcements stay, and nodes look for the timers in the room.
func (c *Coordinator) doTimed(ctx context.Context, id string, timed timedAction) (result room.Result, err error) {
	var announced []int64
	a, err := timed.Timed(func(in int64) (int64, error) {
		due, err := c.timers.Announce(ctx, id, in)
		if err == nil {
			announced = append(announced, due)
		}
		return due, err
	})
	if err == nil {
		result, err = c.workers.Run(ctx, id, a)
	}
	if err != nil && !errors.Is(err, room.ErrUnknown) {
		for _, due := range announced {
			c.timers.Withdraw(id, due)
		}
	}
	return result, err
}

// Now returns the time in ms since 1970 by the clock of all nodes and timers: a Redis server's, as measured here.
func (c *Coordinator) Now() int64 { return c.timers.Now() }

// Read returns a room as it is. It takes no lock, unless it must repair the room first. It fails with
// [room.ErrInvalid], [room.ErrUnavailable] or the cause of ctx.
func (c *Coordinator) Read(ctx context.Context, id string) (room.Snapshot, error) {
	if err := room.CheckID(id); err != nil {
		return room.Snapshot{}, err
	}
	known := c.feeds.At(id)
	r, err := c.store.Load(ctx, id)
	if err == nil {
		c.feeds.Recall(r)
	}
	if err == nil && r.Renewed() { // not whole in Redis: what this node knows becomes a new epoch
		if _, err = c.workers.Run(ctx, id, room.Upkeep{Renew: r.Epoch}); err == nil {
			r, err = c.store.Load(ctx, id)
		}
	}
	if err != nil {
		return room.Snapshot{}, unavailable(ctx, err)
	}
	c.feeds.Saw(r)
	c.feeds.Compare(known, r)
	return r.Snapshot(), nil
}

// unavailable returns what callers get for an error of Redis: the cause of an ended ctx, otherwise an ErrUnavailable.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", room.ErrUnavailable, err)
}

// Watch calls fn with each further event of the room, in the order of commits, until stop is called; it does not call
// fn after stop has returned. fn must return at once and may not call Watch or stop.
//
// Watch returns when the subscription is established, so that a later Read or Do misses nothing. It fails with
// [room.ErrInvalid], [room.ErrUnavailable], [room.ErrClosed] or the cause of ctx.
func (c *Coordinator) Watch(ctx context.Context, id string, fn func(*room.Event)) (stop func(), err error) {
	if err := room.CheckID(id); err != nil {
		return nil, err
	}
	return c.feeds.Watch(ctx, id, fn)
}

// ErrReplicas: Redis has fewer replicas than Options.Replicas, so each change would end with [room.ErrUnknown].
var ErrReplicas = store.ErrUnacked

// Ready checks that actions can run: Redis answers, has Options.Replicas replicas, and has taken this node's lease.
// It fails with [room.ErrUnavailable], which wraps [ErrReplicas] or Redis' error, or with [room.ErrClosed].
func (c *Coordinator) Ready(ctx context.Context) error {
	if err := c.Ping(ctx); err != nil {
		return err
	}
	if err := c.node.Start(ctx); err != nil {
		return err
	}
	if err := c.store.CheckReplicas(ctx); err != nil {
		return fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return nil
}

// Ping checks that Redis answers. It fails with [room.ErrUnavailable].
func (c *Coordinator) Ping(ctx context.Context) error {
	if err := c.store.Client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return nil
}

// Alive returns an error if the coordinator itself is stuck, but not for an outage of Redis. It blocks while a
// goroutine keeps one of the mutexes that all work needs.
func (c *Coordinator) Alive() error {
	c.workers.Queues()
	return c.node.Alive()
}

// Close accepts no more actions, waits for the running ones and ends the watches. The node's members keep their seats
// for Options.Grace; then other nodes remove those whose sessions have not come back elsewhere. If ctx ends first,
// Close stops waiting for locks and returns the cause of ctx, but still gives the lease back, which takes a second at
// most. Either way no goroutine of the coordinator is left.
func (c *Coordinator) Close(ctx context.Context) error {
	c.start.Do(func() {}) // prevents a later start
	c.workers.Refuse()
	c.node.Refuse()
	stop := context.AfterFunc(ctx, c.life.kill)
	c.life.shut()
	c.loops.Wait()
	c.node.Wait()
	c.workers.Close()
	if err := c.node.End(context.WithoutCancel(ctx)); err != nil { // End has its own timeout
		c.opts.Log.Warn("the node's lease could not be given back; it expires", "error", err)
	}
	c.timers.Close()
	c.relay.Close()
	c.lobby.Close()
	c.locks.Close()
	c.feeds.Close()
	c.logs.Close()
	if !stop() {
		return context.Cause(ctx)
	}
	c.life.kill()
	return nil
}
