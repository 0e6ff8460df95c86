package cluster

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Redis knows a node's rooms by two records: the room in Node:<node>:Rooms, and by:<node> in the room. The first is
// written here, before the node writes to the room, and the second by its commits. Both are deleted when the node has
// no members there any more. Any other node may take over the last one, so each node compares its records with the
// rooms, one after the other, for as long as it lives. What fails is tried again in the next round.
const (
	// comparePause is the least time between two rooms that are compared, and
	// compareRound between the beginnings of two rounds.
	comparePause = 100 * time.Millisecond
	compareRound = time.Minute

	// readTimeout is how long reading one room may take.
	readTimeout = 3 * time.Second
)

//go:embed lua/lease_rooms.lua
var roomsLua string

// RoomsScript writes and deletes records of rooms.
var RoomsScript = redis.NewScript(roomsLua)

// registrations are what this node does with its records of rooms. They are not deleted where it acts.
type registrations struct {
	mu    sync.Mutex
	users map[string]int           // guarded by mu: by room, the Registrations that rely on its records
	gone  map[string]chan struct{} // guarded by mu: by room whose records are being deleted; closed when that is done
}

// Registration is this node's use of one room: while it is open, the node does not delete its records
// there. One goroutine at a time may use it.
type Registration struct {
	node *Node
	id   string
	open bool
	who  *Identity // the name under which Redis knows that we may have members here; nil: none
}

// Registration returns a closed Registration, and sends nothing.
func (n *Node) Registration(id string) *Registration { return &Registration{node: n, id: id} }

// Valid reports whether the node may write to the room now; if not, call Open.
func (r *Registration) Valid() bool {
	who, valid := r.node.lease.holder()
	return valid && who == r.who
}

// Node returns the name that Open has made valid.
func (r *Registration) Node() string { return r.who.Node }

// Open makes sure that the node may write to the room under its name: its lease is valid, and Redis
// knows that it may have members there. While another goroutine deletes that record it waits.
//
// On Cluster the record may be on a master that is away, or has too few replicas. Then the node does not wait until
// its lease is over, and moves to another hash slot. A lease that is over in Redis is followed by another one.
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

// register records a room that is new to the node. On Cluster it gives up when the lease is over.
func (n *Node) register(ctx context.Context, who *Identity, id string) error {
	if n.store.Cluster {
		_, until := n.lease.held()
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	return n.lease.record(ctx, who, recordAdd, id)
}

// use counts the Registration among those that rely on the room's records.
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
		if deleted == nil {
			break
		}
		select {
		case <-deleted:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close ends the use of the room.
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

// beginDelete reports whether the records of a room may be deleted now: nobody relies on them. Then
// the caller has to call end.
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

// compareLoop compares the records with the rooms.
func (n *Node) compareLoop() {
	for n.open.Err() == nil {
		next := time.Now().Add(compareRound)
		who, _ := n.lease.holder()
		for _, id := range who.rooms.all() {
			if pause.For(n.open, comparePause) != nil {
				return
			}
			if err := errors.Join(n.Reconcile(id), n.checkAnswers(id)); err != nil {
				n.logs.registration.Happened(err, "room", id)
			}
		}
		_ = pause.For(n.open, time.Until(next))
	}
}

// Reconcile compares the records of this node in a room with the room, and deletes them if it has no
// members there. If Redis has lost some of the room it puts that right. Of a room that is in use it
// only records again that the node may have members there.
func (n *Node) Reconcile(id string) error {
	who, _ := n.lease.holder()
	if !who.rooms.has(id) {
		return nil
	}
	end, free := n.registrations.beginDelete(id)
	if !free {
		return n.record(who, recordAdd, id)
	}
	known := n.watchers.At(id)
	seen, err := n.unregister(n.life, id, who.Node)
	if err == nil {
		n.watchers.Compare(id, known, seen.Position)
		if seen.Member {
			err = n.record(who, recordAdd, id)
		} else {
			who.rooms.remove(id)
			if err = n.record(who, recordRemove, id); err != nil {
				who.rooms.add(id) // it may still be there
			}
		}
	}
	end()
	if err == nil && !seen.Whole {
		_, err = n.actions.Run(n.life, id, room.Renew{Epoch: seen.Position.Epoch})
	}
	return err
}

// unregister deletes by:<node> from a room, unless the node has members there.
func (n *Node) unregister(ctx context.Context, id, node string) (store.NodeRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Settings.LockTTL)
	defer cancel()
	return n.store.Unregister(ctx, id, node)
}

// record records that a node may have members in a room, with recordAdd, or that it has none
// there, with recordRemove.
func (n *Node) record(who *Identity, verb, id string) error {
	ctx, cancel := context.WithTimeout(n.life, n.opts.Settings.LockTTL)
	defer cancel()
	return n.lease.record(ctx, who, verb, id)
}

// errLeaseOver: the node's lease is over in Redis.
var errLeaseOver = errors.New("the node's lease is over")

// The verbs of record, as lease_rooms.lua has them.
const (
	recordAdd    = "add"
	recordRemove = "remove"
)

// record records in Redis that the node may have members in some rooms (recordAdd), or that it has none there
// (recordRemove). If it fails it may have been carried out; but it is not once a later one has been.
func (l *lease) record(ctx context.Context, who *Identity, verb string, ids ...string) error {
	if verb == recordAdd {
		who.rooms.add(ids...) // also if it fails
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
			who.heartbeat.Add(1) // what comes after this must not be undone by it
			return err
		case done == 1:
			return nil
		case who.heartbeat.Load() == heartbeat:
			return errLeaseOver
		}
	}
}

// checkAnswers removes members of this node from a room for whom no session answers.
func (n *Node) checkAnswers(id string) error {
	if n.answerFor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.open, readTimeout)
	defer cancel()
	now, err := n.store.Load(ctx, id)
	if err == nil {
		n.RemoveUnanswered(n.open, now)
	}
	return err
}

// RemoveUnanswered removes the members of this node for whom no session answers. now is the
// room in Redis, which may be an old copy.
func (n *Node) RemoveUnanswered(ctx context.Context, now *room.Room) {
	if n.answerFor == nil {
		return
	}
	who, _ := n.lease.holder()
	for user, m := range now.Members() {
		if m.Node != who.Node || n.answerFor(now.ID, m.SessionID()) {
			continue
		}
		if _, err := n.actions.Run(ctx, now.ID, room.Leave{User: user, Session: m.SessionID(), Reason: room.ReasonTimeout}); err != nil && !errors.Is(err, room.ErrNotMember) && ctx.Err() == nil {
			n.logs.unanswered.Happened(err, "room", now.ID) // the next round is another attempt
		}
	}
}
