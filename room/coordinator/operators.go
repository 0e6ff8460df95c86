package coordinator

import (
	"context"
	"slices"
	"time"

	"roomd/room/coordinator/internal/checks"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/lobby"
	"roomd/room/coordinator/internal/nodes"
	"roomd/room/coordinator/internal/store"
)

// What operators see.
type (
	// Lobby is a list of rooms, and Listed a room in it.
	Lobby  = lobby.List
	Listed = lobby.Listed

	// NodeInfo is a node as its lease describes it, with the settings that all nodes should have in common,
	// and as it describes itself: NodeReport, with its load and the rooms that wait longest.
	NodeInfo     = nodes.Info
	NodeSettings = cluster.Settings
	NodeReport   = nodes.Report
	NodeLoad     = nodes.Load
	NodeWebhook  = nodes.Webhook
	WaitingRoom  = nodes.WaitingRoom

	// Foreign is what another program keeps under the key of a room's members.
	Foreign = store.Foreign

	// Check names an invariant that each node checks in its rooms, Checked is what it has found, and
	// Difference a room that is not as it should be.
	Check      = checks.Check
	Checked    = checks.Checked
	Difference = checks.Difference
)

// What is checked.
const (
	CheckCopies   = checks.CheckCopies   // Redis has what the node has built from events
	CheckSeats    = checks.CheckSeats    // no seat is taken twice
	CheckCapacity = checks.CheckCapacity // no room has more members, or a higher seat, than its settings allow
	CheckVersions = checks.CheckVersions // versions have no gap, and do not go back within an epoch
)

// MinRedis is the oldest major version of Redis that has the commands a coordinator needs.
const MinRedis = checks.MinRedis

// EnoughRights returns an ACL that allows what a coordinator does whose keys have that prefix.
func EnoughRights(keyPrefix string) string { return checks.EnoughRights(keyPrefix) }

var (
	// AllChecks are the checks, in the order in which they are shown.
	AllChecks = checks.AllChecks

	// ErrNoNode: no node of that name is believed to live.
	ErrNoNode = nodes.ErrNoNode
)

// Lobby returns a list of the rooms that somebody is in, or that were configured and may be used. It
// has what this node has committed until now, and what other nodes had committed half a second ago; a
// room that Redis forgets, or a node changed in the moment in which it died, after a minute at
// most. No call searches Redis: nodes keep an index of the rooms there, from the first call on, which all share.
// The first one waits up to three seconds for it to be complete.
//
// It fails with [room.ErrUnavailable], [room.ErrClosed] or the cause of ctx.
func (c *Coordinator) Lobby(ctx context.Context) (*Lobby, error) { return c.lobby.Get(ctx) }

// NextLobby waits until the list of [Coordinator.Lobby] is another one than before, and returns it with the ids of
// the rooms in which the two differ. Nil is no list: then it does not wait, and returns no ids. It fails as Lobby does.
func (c *Coordinator) NextLobby(ctx context.Context, before *Lobby) (now *Lobby, ids []string, err error) {
	return c.lobby.Next(ctx, before)
}

// Settings returns what this coordinator shares with the others.
func (c *Coordinator) Settings() NodeSettings { return c.opts.shared() }

// Nodes returns the nodes that are believed to live, by name. It fails with [room.ErrUnavailable].
func (c *Coordinator) Nodes(ctx context.Context) ([]NodeInfo, error) {
	return nodes.Living(ctx, c.store, c.node, c.opts.NodeTTL)
}

// DrainRequested returns a channel that is closed when somebody asks this node to stop, on any node,
// by [Coordinator.Drain]. Without Options.Report it never is.
func (c *Coordinator) DrainRequested() <-chan struct{} { return c.beacon.DrainRequested() }

// Drain asks a node, which may be another one, to stop. It sees that within about two seconds. A node
// that takes its place has another name, and is not asked. It fails with [ErrNoNode] or
// [room.ErrUnavailable].
func (c *Coordinator) Drain(ctx context.Context, node string) error {
	return nodes.Drain(ctx, c.store, c.node, node)
}

// Checks returns what the checks of this node have found. Without Options.Report nothing is checked.
func (c *Coordinator) Checks() map[Check]Checked { return c.checks.Results() }

// Check tries all that a coordinator will ask of Redis, and leaves nothing behind. It
// returns an error that says what Redis does not allow this user, so that this is not
// found out in the middle of a commit, or fails with [room.ErrForeign] as CheckKeys does, or with [room.ErrUnavailable]. It logs what else
// is wrong with a server, as far as the server says so.
func (c *Coordinator) Check(ctx context.Context) error { return c.redis().Check(ctx) }

// MissingRights returns what Redis does not allow this user, each as a command and a key or
// channel. It fails with [room.ErrUnavailable].
func (c *Coordinator) MissingRights(ctx context.Context) ([]string, error) {
	return c.redis().MissingRights(ctx)
}

// CheckKeys fails with [room.ErrForeign] if a key that all rooms share holds what roomd has not written.
func (c *Coordinator) CheckKeys(ctx context.Context) error { return c.redis().CheckKeys(ctx) }

// FindForeign searches all of Redis for keys of rooms that other programs have written, and calls found for each, one
// after the other. In such a room every action fails with [room.ErrForeign]. It looks at every key of every server, so it is
// for an operator, now and then. It fails with an error of Redis.
func (c *Coordinator) FindForeign(ctx context.Context, found func(Foreign)) error {
	return c.store.FindForeign(ctx, found)
}

func (c *Coordinator) redis() *checks.Redis {
	return &checks.Redis{Store: c.store, Locks: c.locks, Replicas: c.opts.Replicas, Journal: c.opts.Journal, Feed: c.opts.Feed, Log: c.opts.Log}
}

// Stats are what a [Coordinator] holds at a moment.
type Stats struct {
	Waiting int // actions that wait for their room's lock
	Busy    int // rooms on which this node works
	Copies  int // rooms that are idle, of which this node keeps a copy

	Uncopied int // rooms with commits that this node has not copied into the feed yet
}

// Stats counts. It takes about a millisecond where there are many rooms.
func (c *Coordinator) Stats() Stats {
	busy, idle := c.workers.list()
	s := Stats{Busy: len(busy), Copies: idle, Uncopied: c.relay.Waiting()}
	for _, w := range busy {
		s.Waiting += w.queue.size()
	}
	return s
}

// maxWaiting is how many waiting rooms a report has.
const maxWaiting = 20

// describe adds what is waiting, and what the checks and the owner know, to a report.
func (c *Coordinator) describe(r *NodeReport) {
	busy, _ := c.workers.list()
	now := time.Now()
	r.Checks, r.Load.BusyRooms = c.Checks(), len(busy)
	r.Waiting = make([]WaitingRoom, 0, maxWaiting)
	for _, w := range busy {
		if actions, deadline := w.queue.first(); actions > 0 {
			r.Load.Queue += actions
			r.Waiting = append(r.Waiting, WaitingRoom{Room: w.id, Actions: actions, MS: max(0, now.Sub(deadline.Add(-c.opts.LockWait)).Milliseconds())})
		}
	}
	slices.SortFunc(r.Waiting, func(a, b WaitingRoom) int { return int(b.MS - a.MS) })
	r.Waiting = r.Waiting[:min(len(r.Waiting), maxWaiting)]
	c.opts.Report(r)
}
