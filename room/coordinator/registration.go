package coordinator

import (
	"context"
	"errors"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/room"
)

// Redis knows a node's rooms by two records: the room in Node:<node>:Rooms, and by:<node>
// in the room. They are deleted when the node has no members there any more. Any other node
// may take over the last one, so each node compares its records with the rooms, one after
// the other, for as long as it lives. What fails is tried again in the next round.

const (
	// comparePause is the least time between two rooms that are compared, and
	// compareRound between the beginnings of two rounds.
	comparePause = 100 * time.Millisecond
	compareRound = time.Minute
)

// registration records in Redis in which rooms this node may have members, so that other
// nodes find them when it dies.
type registration struct {
	lifetime lifetime
	store    *store
	lease    *lease
	episodes *episodes
	timeout  time.Duration // of a request
	records  recordUses    // of rooms

	run       func(ctx context.Context, id string, a room.Action) (room.Result, error)
	visit     func(id string) error           // compares one room with its record
	answerFor func(room, session string) bool // nil: nobody is asked
}

// loop compares the records with the rooms.
func (r *registration) loop() {
	open := r.lifetime.open
	for open.Err() == nil {
		next := time.Now().Add(compareRound)
		who, _ := r.lease.holder()
		for _, id := range who.rooms.all() {
			if redisconn.Pause(open, comparePause) != nil {
				return
			}
			if err := errors.Join(r.visit(id), r.checkAnswers(id)); err != nil {
				r.episodes.registration.Happened(err, "room", id)
			}
		}
		_ = redisconn.Pause(open, time.Until(next))
	}
}

// checkAnswers removes members of this node from a room for whom no session answers.
func (r *registration) checkAnswers(id string) error {
	if r.answerFor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.lifetime.open, rereadTimeout)
	defer cancel()
	now, err := r.store.load(ctx, id)
	if err == nil {
		r.removeUnanswered(r.lifetime.open, now)
	}
	return err
}

// removeUnanswered removes the members of this node for whom no session answers. now is the
// room in Redis, which may be an old copy.
func (r *registration) removeUnanswered(ctx context.Context, now *room.Room) {
	if r.answerFor == nil {
		return
	}
	who, _ := r.lease.holder()
	for user, m := range now.Members() {
		if m.Node != who.node || r.answerFor(now.ID, m.SessionID()) {
			continue
		}
		if _, err := r.run(ctx, now.ID, room.Leave(user, m.SessionID()).Because(room.ReasonTimeout)); err != nil && !errors.Is(err, room.ErrNotMember) && ctx.Err() == nil {
			r.episodes.unanswered.Happened(err, "room", now.ID) // the next round is another attempt
		}
	}
}

// forget deletes by:<node> from a room, unless the node has members there.
func (r *registration) forget(ctx context.Context, id string, who *identity) (traces, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.store.forget(ctx, id, who)
}

// note records that a node may have members in a room, with noteAdd, or that it has none
// there, with noteRemove.
func (r *registration) note(ctx context.Context, who *identity, verb, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.lease.note(ctx, who, verb, id)
}

// add records that this node may have members in a room that is new to it. On Cluster it
// gives up when the lease is over.
func (r *registration) add(ctx context.Context, who *identity, id string) error {
	if r.store.cluster {
		_, until := r.lease.held()
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	return r.lease.note(ctx, who, noteAdd, id)
}
