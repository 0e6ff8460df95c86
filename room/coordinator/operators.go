package coordinator

import (
	"context"
	"slices"
	"time"

	"roomd/lockmgr"
	"roomd/room/coordinator/internal/checks"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/lobby"
	"roomd/room/coordinator/internal/nodes"
	"roomd/room/coordinator/internal/relay"
	"roomd/room/coordinator/internal/store"
	"roomd/room/coordinator/internal/work"
)

// Types for operators.
type (
	// Lobby is a list of rooms, and Listed a room in it.
	Lobby  = lobby.List
	Listed = lobby.Listed

	// NodeInfo describes a node: its lease, with the settings that all nodes should share, and its NodeReport, with
	// its load and the rooms that wait longest.
	NodeInfo     = nodes.Info
	NodeSettings = cluster.Settings
	NodeReport   = nodes.Report
	NodeLoad     = nodes.Load
	NodeWebhook  = nodes.Webhook
	WaitingRoom  = nodes.WaitingRoom

	// Foreign is another program's value under the key of a room's members.
	Foreign = store.Foreign

	// Check names an invariant of rooms that each node checks, Checked is the result, and Difference a violation.
	Check      = checks.Check
	Checked    = checks.Checked
	Difference = checks.Difference
)

// The checks.
const (
	CheckCopies   = checks.CheckCopies   // Redis has what the node has built from events
	CheckSeats    = checks.CheckSeats    // no seat is taken twice
	CheckCapacity = checks.CheckCapacity // no room has more members, or a higher seat, than its settings allow
	CheckVersions = checks.CheckVersions // versions have no gap, and do not go back within an epoch
)

// EnoughRights returns an ACL that allows all that a coordinator with that key prefix does.
func EnoughRights(keyPrefix string) string { return checks.EnoughRights(keyPrefix) }

var (
	// AllChecks are the checks in display order.
	AllChecks = checks.AllChecks

	// ErrNoNode: no living node has that name.
	ErrNoNode = nodes.ErrNoNode
)

// operators is the part of a [Coordinator] that serves operators.
type operators struct {
	opts    Options
	store   *store.Store
	locks   *lockmgr.Manager
	node    *cluster.Node
	workers *work.Pool
	relay   *relay.Relay
	checks  *checks.Checks
	beacon  *nodes.Beacon
}

func newOperators(opts Options, st *store.Store, locks *lockmgr.Manager, ws *work.Pool, tally *nodes.Tally) *operators {
	o := &operators{
		opts: opts, store: st, locks: locks, node: ws.Node, workers: ws, relay: ws.Relay,
		checks: checks.New(st, ws.Feeds),
	}
	o.beacon = nodes.NewBeacon(st, ws.Node, tally, o.describe)
	return o
}

// Settings returns the settings that all coordinators should share.
func (o *operators) Settings() NodeSettings { return o.opts.shared() }

// Nodes returns the living nodes, sorted by name. It fails with [room.ErrUnavailable].
func (o *operators) Nodes(ctx context.Context) ([]NodeInfo, error) {
	return nodes.Living(ctx, o.store, o.node, o.opts.NodeTTL)
}

// DrainRequested returns a channel that is closed when somebody asks this node to stop, by [Coordinator.Drain] on any
// node. Without Options.Report that never happens.
func (o *operators) DrainRequested() <-chan struct{} { return o.beacon.DrainRequested() }

// Drain asks a node, this or another, to stop. The node notices within about two seconds. A node that takes its place
// has another name, and is not asked. It fails with [ErrNoNode] or [room.ErrUnavailable].
func (o *operators) Drain(ctx context.Context, node string) error {
	return nodes.Drain(ctx, o.store, o.node, node)
}

// Checks returns the results of this node's checks. Without Options.Report nothing is checked.
func (o *operators) Checks() map[Check]Checked { return o.checks.Results() }

// Check tries all that a coordinator will ask of Redis, and leaves nothing behind. Its error names the rights that the
// node's user of Redis lacks, before a commit fails for one. It also fails with [room.ErrForeign] as CheckKeys does,
// or with [room.ErrUnavailable]. It logs other problems that the servers report.
func (o *operators) Check(ctx context.Context) error { return o.redis().Check(ctx) }

// MissingRights lists the commands that Redis forbids, most with a key or channel. It fails with
// [room.ErrUnavailable].
func (o *operators) MissingRights(ctx context.Context) ([]string, error) {
	return o.redis().MissingRights(ctx)
}

// CheckKeys fails with [room.ErrForeign] if a key that all rooms share holds something that roomd has not written.
func (o *operators) CheckKeys(ctx context.Context) error { return o.redis().CheckKeys(ctx) }

// FindForeign calls found for each key of a room's members that another program has written, one after the other. In
// such a room every action fails with [room.ErrForeign]. It looks at every key of every server, so use it now and
// then, by hand. It fails with an error of Redis.
func (o *operators) FindForeign(ctx context.Context, found func(Foreign)) error {
	return o.store.FindForeign(ctx, found)
}

func (o *operators) redis() *checks.Redis {
	return &checks.Redis{Store: o.store, Locks: o.locks, Replicas: o.opts.Replicas, Journal: o.opts.Journal,
		Feed: o.opts.Feed, Log: o.opts.Log}
}

// Stats are a [Coordinator]'s current counts.
type Stats struct {
	Waiting int // actions that wait for their room's lock
	Busy    int // rooms on which this node works
	Copies  int // copies of idle rooms that this node keeps

	Uncopied int // rooms with commits that this node has not copied into the feed yet
}

// Stats returns the counts. It takes about a millisecond where there are many rooms.
func (o *operators) Stats() Stats {
	busy, idle := o.workers.Queues()
	s := Stats{Busy: len(busy), Copies: idle, Uncopied: o.relay.Waiting()}
	for _, q := range busy {
		s.Waiting += q.Actions
	}
	return s
}

// maxWaiting limits the waiting rooms in a report.
const maxWaiting = 20

// describe adds the waiting rooms, the results of the checks and the owner's part to a report.
func (o *operators) describe(r *NodeReport) {
	busy, _ := o.workers.Queues()
	now := time.Now()
	r.Checks, r.Load.BusyRooms = o.Checks(), len(busy)
	r.Waiting = make([]WaitingRoom, 0, maxWaiting)
	for _, q := range busy {
		if q.Actions > 0 {
			r.Load.Queue += q.Actions
			r.Waiting = append(r.Waiting, WaitingRoom{Room: q.Room, Actions: q.Actions,
				MS: max(0, now.Sub(q.Since).Milliseconds())})
		}
	}
	slices.SortFunc(r.Waiting, func(a, b WaitingRoom) int { return int(b.MS - a.MS) })
	r.Waiting = r.Waiting[:min(len(r.Waiting), maxWaiting)]
	o.opts.Report(r)
}
