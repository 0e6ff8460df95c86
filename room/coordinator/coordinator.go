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

// Coordinator runs actions on rooms, each under its room's lock. It is safe for
// concurrent use.
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

	reports sync.Once // starts the loops for operators
	loops   sync.WaitGroup
}

// lifetime says when the parts of a coordinator come to an end.
type lifetime struct {
	open context.Context // ends when Close begins
	shut context.CancelFunc

	life context.Context // ends when Close does not wait any longer
	kill context.CancelFunc
}

func newLifetime() (l lifetime) {
	l.open, l.shut = context.WithCancel(context.Background())
	l.life, l.kill = context.WithCancel(context.Background())
	return l
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
	tally := nodes.NewTally()
	if opts.Report != nil {
		opts.Trace = opts.Trace.Counting(tally)
	}
	// An episode lasts for longer than one turn of the lease's loop, which may be a timeout and a pause.
	logs := ratelog.NewSet(opts.Log, max(ratelog.Quiet, 3*opts.NodeTTL))
	st := store.New(client, opts.store())
	// Events and wake-ups come on one connection, in the order of commits: when the lock
	// is handed to this node, its copy of the room has followed what went before.
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

// Node returns the coordinator's name in what it writes. It changes when the node's
// lease was lost. On Redis Cluster it begins with a hash tag.
func (c *Coordinator) Node() string { return c.node.Name() }

// Start announces the node: from now on it is known to others, and removes the
// members of those that have died. Without it that begins with the first action.
// It fails with [room.ErrUnavailable] or [room.ErrClosed].
func (c *Coordinator) Start(ctx context.Context) error {
	err := c.node.Start(ctx)
	c.timers.Start()
	c.relay.Start()
	c.startReports()
	return err
}

// startReports starts the loops for operators, if there are to be some.
func (c *Coordinator) startReports() {
	c.reports.Do(func() {
		if c.opts.Report != nil {
			c.loops.Go(func() { c.beacon.Loop(c.life.open) })
			c.loops.Go(func() { c.checks.Loop(c.life.open) })
			c.lobby.Start()
		}
	})
}

// SetAddress sets Options.Address, for a node that learns it only when it listens. Call it
// before Start and the first action. It fails with [room.ErrInvalid].
func (c *Coordinator) SetAddress(address string) error {
	if err := checkAddress(address); err != nil {
		return err
	}
	c.node.SetAddress(address)
	return nil
}

// AnswerFor makes fn say whether a session of this node is still to be in a room. Call it
// before the first action; fn must return at once and may not call the Coordinator.
// Without it nobody is asked.
//
// It is for rooms of which Redis has an old copy again: that holds members who have left
// since. Nobody else would remove those under the name of a node that lives.
func (c *Coordinator) AnswerFor(fn func(room, session string) bool) { c.node.AnswerFor(fn) }

// Do runs an action on the room of that id and returns when it is committed or
// has failed. Actions of one coordinator on one room run in the order of their
// calls. Where the room is idle the caller itself waits for Redis: while that does not answer, Do may return
// as late as 0.3 s after the end of ctx.
//
// It fails with [room.ErrInvalid], [room.ErrNotMember], [room.ErrDuplicate], [room.ErrFull] or
// [room.ErrRoomClosed] by the room's settings, [room.ErrConflict] if the action expects another
// version, an error of Rules.Seating, [room.ErrBusy], [room.ErrUnavailable], [room.ErrClosed] or the cause of
// ctx, and then nothing was written; or with [room.ErrUnknown].
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
	c.timers.Start()
	c.relay.Start()
	c.startReports()
	switch a.(type) {
	case room.SetTimer, room.Txn:
		return c.doTimed(ctx, id, a)
	}
	for {
		result, err := c.workers.RunSince(ctx, id, a, now)
		stays, taken := errors.AsType[*room.DuplicateError](err)
		join, joins := a.(room.Join)
		if !taken || !joins {
			return result, err
		}
		again, differs := join.KnowingDead(stays.Node)
		if !differs || !c.node.IsDead(ctx, stays.Node) {
			return result, err
		}
		a, now = again, time.Now()
	}
}

// doTimed runs an action with the times at which the timers that it sets are due. Until the answer is certain, others
// look for the timers in the room.
func (c *Coordinator) doTimed(ctx context.Context, id string, a room.Action) (result room.Result, err error) {
	var announced []int64
	a, err = room.Timed(a, func(in int64) (int64, error) {
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

// Now returns the time in ms since 1970 by the clock that all nodes share, which timers are due by: that of a Redis
// server, as this node has measured it.
func (c *Coordinator) Now() int64 { return c.timers.Now() }

// Read returns a room as it is, without taking its lock, unless it has to put the
// room right first. It fails with [room.ErrInvalid], [room.ErrUnavailable] or the cause
// of ctx.
func (c *Coordinator) Read(ctx context.Context, id string) (room.Snapshot, error) {
	if err := room.CheckID(id); err != nil {
		return room.Snapshot{}, err
	}
	known := c.feeds.At(id)
	r, err := c.store.Load(ctx, id)
	if err == nil {
		c.feeds.Recall(r)
	}
	if err == nil && r.Renewed() { // not whole: what is known of it is a new epoch
		if _, err = c.workers.Run(ctx, id, room.Renew{Epoch: r.Epoch}); err == nil {
			r, err = c.store.Load(ctx, id)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return room.Snapshot{}, context.Cause(ctx)
	case err != nil:
		return room.Snapshot{}, fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	c.feeds.Saw(r)
	c.feeds.Compare(id, known, r.Position)
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
	return c.feeds.Watch(ctx, id, fn)
}

// ErrReplicas says that Redis has fewer replicas than Options.Replicas: each change would end with [room.ErrUnknown].
var ErrReplicas = store.ErrUnacked

// Ready asks whether actions can be done: Redis answers, has the replicas that Options.Replicas wants, and has taken
// this node's lease. It fails with [room.ErrUnavailable], which wraps [ErrReplicas] or the error of Redis, and with
// [room.ErrClosed] after Close.
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

// Ping asks Redis whether it is there. It fails with [room.ErrUnavailable].
func (c *Coordinator) Ping(ctx context.Context) error {
	if err := c.store.Client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return nil
}

// Alive returns an error if the coordinator stands still for a reason of its own, and nil also
// while Redis does not answer. It blocks if somebody keeps one of the locks that all work needs.
func (c *Coordinator) Alive() error {
	c.workers.Queues()
	return c.node.Alive()
}

// Close takes no more actions, waits for those that run and ends the watches. The
// node's members keep their seats for Options.Grace; then other nodes remove those
// whose sessions have not come back elsewhere.
// When ctx ends first it stops waiting for locks and returns the cause of ctx; the
// lease it gives back all the same, for which it takes a second at most.
// Either way no goroutine of the coordinator is left.
func (c *Coordinator) Close(ctx context.Context) error {
	c.reports.Do(func() {}) // they do not start any more
	c.workers.Refuse()
	c.node.Refuse()
	stop := context.AfterFunc(ctx, c.life.kill)
	c.life.shut()
	c.loops.Wait()
	c.node.Wait()
	c.workers.Close()
	if err := c.node.End(context.WithoutCancel(ctx)); err != nil { // it has bounds of its own
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
