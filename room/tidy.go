package room

import (
	"context"
	"errors"
	"time"
)

// What a node has noted of itself in Redis goes when it is true no more: the room in
// Node:<node>:Rooms, and by:<node> in the room. Whoever takes the last member over may be
// any node, so each compares what it has noted with the rooms, one after the other, for
// as long as it lives. What does not succeed is tried again in the next round.

const (
	// tidyPause is the least time between two rooms that are compared, and tidyRound
	// between the beginnings of two rounds.
	tidyPause = 100 * time.Millisecond
	tidyRound = time.Minute
)

// tidy compares what is noted with the rooms.
func (c *Coordinator) tidy() {
	for c.open.Err() == nil {
		next := time.Now().Add(tidyRound)
		who, _ := c.lease.holder()
		for _, id := range who.rooms.all() {
			if pause(c.open, tidyPause); c.open.Err() != nil {
				return
			}
			if err := errors.Join(c.visit(id), c.askWhoAnswers(id)); err != nil {
				c.troubles.tidy.Happened(err, "room", id)
			}
		}
		pause(c.open, time.Until(next))
	}
}

// askWhoAnswers removes members of this node for whom no session answers.
func (c *Coordinator) askWhoAnswers(id string) error {
	if c.answerFor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.open, rereadTimeout)
	defer cancel()
	r, err := c.store.load(ctx, id)
	if err == nil {
		c.forgot(c.open, r)
	}
	return err
}

// visit compares one room with what is noted of it.
func (c *Coordinator) visit(id string) error {
	c.mu.Lock()
	_, open := c.desks[id]
	var compared chan error
	if !open && !c.closed {
		d, err := c.deskLocked(id)
		if err != nil {
			c.mu.Unlock()
			return err
		}
		compared = make(chan error, 1)
		c.busy.Go(func() {
			compared <- c.retire(d)
			c.serve(d)
		})
	}
	c.mu.Unlock()
	if compared != nil {
		return <-compared
	}
	// Somebody works there, or did of late. Then it only has to be noted.
	ctx, cancel := context.WithTimeout(c.life, c.opts.LockTTL)
	defer cancel()
	who, _ := c.lease.holder()
	return c.lease.note(ctx, who, "add", id)
}

// retire is the last thing that is done at a desk where nothing has happened for a
// while: what the node left in Redis there goes, unless it still has members. If
// something is wrong with the room it is put right.
func (c *Coordinator) retire(d *desk) error {
	d.retired = true
	who, _ := c.lease.holder()
	if d.listed != who && !who.rooms.has(d.id) {
		return nil
	}
	told := c.feeds.at(d.id)
	seen, err := c.forget(c.life, d.id, who)
	if err != nil {
		return err
	}
	if !seen.state.whole { // any action notices
		d.push(&request{action: renew("", 0), deadline: time.Now().Add(c.opts.LockWait), done: make(chan outcome, 1)})
	}
	c.feeds.compare(d.id, told, seen.state)
	ctx, cancel := context.WithTimeout(c.life, c.opts.LockTTL)
	defer cancel()
	if seen.member {
		return c.lease.note(ctx, who, "add", d.id)
	}
	d.listed = nil // before it is so: what comes next notes it again
	who.rooms.remove(d.id)
	if err := c.lease.note(ctx, who, "remove", d.id); err != nil {
		who.rooms.add(d.id) // it may still be there
		return err
	}
	return nil
}

// at returns what those who watch a room here were told last; an empty epoch is nothing.
func (fs *feeds) at(id string) (told roomState) {
	fs.mu.Lock()
	f := fs.rooms[id]
	fs.mu.Unlock()
	if f == nil {
		return told
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known && !f.syncing {
		told = roomState{epoch: f.epoch, version: f.version}
	}
	return told
}

// compare has a snapshot read if a room, as it is now, cannot be what its watchers were
// told before: Redis has lost it, and they would wait for the next commit to hear that.
func (fs *feeds) compare(id string, told, now roomState) {
	if told.epoch == "" || told.epoch == now.epoch && told.version <= now.version {
		return
	}
	fs.mu.Lock()
	f := fs.rooms[id]
	fs.mu.Unlock()
	if f != nil {
		fs.sawGap(f, f.interrupt())
	}
}

// list notes, before a room is written to, that this node may have members there. On
// Cluster that may be on a master that is away, or has too few replicas; then the node
// does not wait until its lease is over, and notes it at its next home. A lease that is
// over in Redis is followed by another one.
func (c *Coordinator) list(ctx context.Context, d *desk, who *identity) error {
	for d.listed != who {
		err := c.addRoom(ctx, who, d.id)
		switch {
		case err == nil:
			d.listed = who
			return nil
		case ctx.Err() != nil:
			return err
		case errors.Is(err, errLeaseOver):
			if err := c.believe(ctx); err != nil {
				return err
			}
		case c.store.cluster:
			c.lease.leave(who)
			for c.lease.leaving(who) {
				if err := c.believe(ctx); ctx.Err() != nil || errors.Is(err, ErrClosed) {
					return err
				}
			}
		default:
			return err
		}
		next, valid := c.lease.holder()
		if next == who || !valid {
			return err
		}
		who = next
	}
	return nil
}

// addRoom notes that the node may have members in a room.
func (c *Coordinator) addRoom(ctx context.Context, who *identity, id string) error {
	if c.store.cluster {
		_, until := c.lease.held()
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	return c.lease.note(ctx, who, "add", id)
}
