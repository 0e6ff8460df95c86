package cluster

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
)

// Redis has two records of a node's use of a room: the room in Node:<node>:Rooms, and by:<node> in the room. This
// file writes the first, before the node writes to the room; the node's commits write the second. Both are deleted
// once the node has no members there. Another node may remove the last member, so each node compares its records with
// the rooms in rounds, and on the way mends rooms that are watched on it. A failure is retried in the next round.
const (
	// comparePause is the least time between two compared rooms, compareRound between the starts of two rounds.
	comparePause = 100 * time.Millisecond
	compareRound = time.Minute

	readTimeout = 3 * time.Second
)

//go:embed lua/lease_rooms.lua
var roomsLua string

// RoomsScript adds and deletes records of rooms.
var RoomsScript = redis.NewScript(roomsLua)

// registrations are this node's open Registrations. The records of their rooms are not deleted.
type registrations struct {
	mu    sync.Mutex
	users map[string]int           // guarded by mu: by room, the number of open Registrations
	gone  map[string]chan struct{} // guarded by mu: by room whose records are being deleted; closed at the end
}

// Registration is this node's use of one room: while it is open, the node's records of the room stay. It must be used
// by one goroutine at a time.
type Registration struct {
	node *Node
	id   string
	open bool
	who  *Identity // the recorded name under which we may have members here; nil: none
}

// Registration returns a closed Registration. It sends nothing.
func (n *Node) Registration(id string) *Registration { return &Registration{node: n, id: id} }

// holder returns the node's name, and whether the node may commit under it.
func (l *lease) holder() (who *Identity, valid bool) {
	who, until := l.held()
	return who, time.Now().Before(until)
}

func (l *lease) held() (who *Identity, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.who, l.until
}

// Valid reports whether the node may write to the room now; otherwise call Open.
func (r *Registration) Valid() bool {
	who, valid := r.node.lease.holder()
	return valid && who == r.who
}

// Node returns the name of this node under which Open registered it. Call Open first.
func (r *Registration) Node() string { return r.who.Node }

// Open makes sure that the node may write to the room: its lease is valid, and Redis has the record of the room. It
// waits while another goroutine deletes the record. If the lease is over in Redis it begins another.
//
// On a Cluster the master with the record may be away or have too few replicas. Then the node moves to another hash
// slot at once, without waiting for its lease to end. Open fails as Start, or with an error of Redis or of ctx.
func (r *Registration) Open(ctx context.Context) error {
	n := r.node
	if err := n.Start(ctx); err != nil {
		return err
	}
	if err := r.use(ctx); err != nil {
		return err
	}
	who, _ := n.lease.holder()
	for r.who != who {
		err := n.register(ctx, who, r.id)
		switch {
		case err == nil:
			r.who = who
			return nil
		case ctx.Err() != nil:
			return err
		case errors.Is(err, errLeaseOver):
			if err := n.Prolong(ctx); err != nil {
				return err
			}
		case n.store.Cluster:
			n.lease.abandon(who)
			for n.lease.abandoned(who) {
				if err := n.Prolong(ctx); ctx.Err() != nil || errors.Is(err, room.ErrClosed) {
					return err
				}
			}
		default:
			return err
		}
		next, valid := n.lease.holder()
		if next == who || !valid {
			return err
		}
		who = next
	}
	return nil
}

// register records a room under the name who. On a Cluster it gives up when the lease is over.
func (n *Node) register(ctx context.Context, who *Identity, id string) error {
	if n.store.Cluster {
		_, until := n.lease.held()
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	return n.lease.record(ctx, who, recordAdd, id)
}

// use adds the Registration to the open ones. It waits while the room's records are being deleted.
func (r *Registration) use(ctx context.Context) error {
	all := &r.node.registrations
	for !r.open {
		all.mu.Lock()
		deleted := all.gone[r.id]
		if deleted == nil {
			all.users[r.id]++
			r.open = true
		}
		all.mu.Unlock()
		if deleted != nil {
			select {
			case <-deleted:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// Close ends the use of the room. Its records stay until Reconcile finds no members of the node there.
func (r *Registration) Close() {
	if !r.open {
		return
	}
	all := &r.node.registrations
	all.mu.Lock()
	defer all.mu.Unlock()
	r.open, r.who = false, nil
	if all.users[r.id]--; all.users[r.id] == 0 {
		delete(all.users, r.id)
	}
}

// beginDelete reports whether the records of a room may be deleted now. If so, Open waits until the caller calls end.
func (all *registrations) beginDelete(id string) (end func(), free bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.users[id] > 0 || all.gone[id] != nil {
		return nil, false
	}
	done := make(chan struct{})
	all.gone[id] = done
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.gone, id)
		close(done)
	}, true
}

func (n *Node) compareLoop() {
	for n.open.Err() == nil {
		next := time.Now().Add(compareRound)
		who, _ := n.lease.holder()
		rooms := append(who.rooms.all(), n.watchers.Watched()...)
		slices.Sort(rooms)
		for _, id := range slices.Compact(rooms) {
			if pause.For(n.open, comparePause) != nil {
				return
			}
			if err := errors.Join(n.Reconcile(id), n.mend(id)); err != nil {
				n.logs.registration.Happened(err, "room", id)
			}
		}
		_ = pause.For(n.open, time.Until(next))
	}
}

// Reconcile compares this node's records of a room with the room, and deletes them if no members are the node's. While
// the room is in use it only writes the record again.
func (n *Node) Reconcile(id string) error {
	who, _ := n.lease.holder()
	if !who.rooms.has(id) {
		return nil
	}
	end, free := n.registrations.beginDelete(id)
	if !free {
		return n.record(who, recordAdd, id)
	}
	defer end()
	member, err := n.unregister(n.life, id, who.Node)
	switch {
	case err != nil:
		return err
	case member:
		return n.record(who, recordAdd, id)
	}
	who.rooms.remove(id)
	if err = n.record(who, recordRemove, id); err != nil {
		who.rooms.add(id) // Redis may still have the record
	}
	return err
}

// unregister deletes by:<node> from a room, unless the node has members there, and reports whether it has.
func (n *Node) unregister(ctx context.Context, id, node string) (member bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Settings.LockTTL)
	defer cancel()
	return n.store.Unregister(ctx, id, node)
}

func (n *Node) record(who *Identity, verb, id string) error {
	ctx, cancel := context.WithTimeout(n.life, n.opts.Settings.LockTTL)
	defer cancel()
	return n.lease.record(ctx, who, verb, id)
}

var errLeaseOver = errors.New("the node's lease is over")

// Verbs of record, as in lease_rooms.lua.
const (
	recordAdd    = "add"
	recordRemove = "remove"
)

// record adds (recordAdd) or deletes (recordRemove) the records of rooms. It fails with errLeaseOver if the lease is
// over in Redis. A failed call may still take effect, but not after a later one has succeeded.
func (l *lease) record(ctx context.Context, who *Identity, verb string, ids ...string) error {
	if verb == recordAdd {
		who.rooms.add(ids...) // even if the request fails
	}
	keys, args := l.keysOf(who)[:2], make([]any, 2, 2+len(ids))
	for _, id := range ids {
		args = append(args, id)
	}
	for {
		heartbeat := who.heartbeat.Load()
		args[0], args[1] = verb, heartbeat
		done, err := l.store.RunNumber(ctx, RoomsScript, keys, args...)
		switch {
		case err != nil:
			who.heartbeat.Add(1) // so that the failed request cannot undo later ones
			return err
		case done == 1:
			return nil
		case who.heartbeat.Load() == heartbeat:
			return errLeaseOver
		}
	}
}

// mend reads a room. If Redis has lost it or a part of it, its watchers begin a new epoch. mend also removes unanswered
// members: see RemoveUnanswered.
func (n *Node) mend(id string) error {
	ctx, cancel := context.WithTimeout(n.open, readTimeout)
	defer cancel()
	known := n.watchers.At(id)
	now, err := n.store.Load(ctx, id)
	if err == nil {
		n.watchers.Compare(known, now)
		n.RemoveUnanswered(n.open, now)
	}
	return err
}

// RemoveUnanswered removes this node's members whose sessions do not belong in the room any more. now is the room in
// Redis, possibly an old copy.
func (n *Node) RemoveUnanswered(ctx context.Context, now *room.Room) {
	if n.answerFor == nil {
		return
	}
	who, _ := n.lease.holder()
	for user, m := range now.Members() {
		if m.Node != who.Node || n.answerFor(now.ID, m.SessionID()) {
			continue
		}
		if _, err := n.actions.Run(ctx, now.ID, room.Leave{User: user, Session: m.SessionID(),
			Reason: room.ReasonTimeout}); err != nil && !errors.Is(err, room.ErrNotMember) && ctx.Err() == nil {
			n.logs.unanswered.Happened(err, "room", now.ID) // the next round is another attempt
		}
	}
}
