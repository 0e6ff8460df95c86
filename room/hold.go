package room

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// serve works at a room, hold after hold, until nothing waits for it.
func (c *Coordinator) serve(d *desk) {
	for {
		switch {
		case c.done(d):
			return
		case d.overdue():
			c.late(d)
		case d.empty(): // all who waited gave up
			c.giveUp(d)
		case !c.known(d):
		case d.turn:
			c.hold(d, modeHeld)
		case c.opts.ElideLock && d.alone && d.copy != nil && !d.inLine:
			c.hold(d, modeElided)
		default:
			c.ask(d)
		}
	}
}

// done lets the desk rest if there is nothing to do, and nothing to give back.
func (c *Coordinator) done(d *desk) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.inLine || !d.empty() {
		return false
	}
	if d.retired {
		c.closeLocked(d)
	} else {
		c.settleLocked(d)
	}
	return true
}

// known sees to it that the node may write to the room under its name: its lease is
// valid, and it is noted that it may have members there. Otherwise it fails those
// who wait.
func (c *Coordinator) known(d *desk) bool {
	who, valid := c.lease.holder()
	if valid && d.listed == who {
		return true
	}
	ctx, end := d.patience(c.life)
	defer end()
	err := c.Start(ctx)
	if err == nil {
		who, _ = c.lease.holder()
		err = c.list(ctx, d, who)
	}
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
		c.late(d)
	case errors.Is(err, ErrClosed):
		d.fail(ErrClosed, false)
	default:
		d.fail(c.unavailable(d.id, err), false)
	}
	return false
}

// giveUp leaves the line for the lock.
func (c *Coordinator) giveUp(d *desk) {
	d.turn, d.inLine = false, false
	d.ticket.Leave()
}

// ask asks for the lock, and waits while another has it, until it is ours or there
// is a reason to look at the queue again.
func (c *Coordinator) ask(d *desk) {
	d.catchUp()
	if !d.inLine && !d.alone {
		d.place.asks()
	}
	d.inLine = true
	if c.askPlainly(d) {
		return
	}
	ctx, end := d.patience(c.life)
	defer end()
	yours, room, err := c.store.take(ctx, d.ticket, d.id, d.copy != nil)
	switch {
	case err != nil && ctx.Err() != nil:
		c.late(d)
		c.giveUp(d) // the request may have been carried out
	case err != nil:
		c.giveUp(d)
		d.fail(c.unavailable(d.id, err), false)
	case yours:
		d.turn = true
		if room != nil {
			d.copy = room
		}
		d.alone = true
	default:
		d.alone = false
		c.follow(d)
		d.ticket.Listen()
		c.wait(ctx, d)
	}
}

// askPlainly asks for the lock with one plain command, where nobody was met of late.
// False leaves it to the script. The request may take half a TTL, so it is not for
// those who have less time.
func (c *Coordinator) askPlainly(d *desk) bool {
	if !d.alone || d.copy == nil || c.opts.LockWait < c.opts.LockTTL {
		return false
	}
	yours, err := d.ticket.Try(c.timeout.Context())
	switch {
	case err == nil:
		d.turn, d.alone = yours, yours
		return yours
	case redis.HasErrorPrefix(err, "OOM"):
		return false
	case c.life.Err() != nil:
		c.late(d)
	}
	d.fail(c.unavailable(d.id, err), false)
	c.giveUp(d) // the request may have been carried out
	return true
}

// wait waits until it is our turn, or time to ask again.
func (c *Coordinator) wait(ctx context.Context, d *desk) {
	poll := time.NewTimer(c.opts.LockPoll)
	defer poll.Stop()
	select {
	case <-d.ticket.Woken():
		d.turn = true
		d.place.turn()
	case <-poll.C:
	case <-ctx.Done():
		c.late(d)
	}
}

// late fails those who have waited for too long, or all when the coordinator is
// closed.
func (c *Coordinator) late(d *desk) {
	if c.life.Err() != nil {
		d.fail(ErrClosed, false)
		return
	}
	d.fail(&refusal{ErrBusy, fmt.Sprintf("room %s is busy: its lock could not be had within %v", d.id, c.opts.LockWait)}, true)
}

// hold runs one batch under the lock: apply, commit. With modeElided the lock is
// not held, and the commit is refused unless nobody else holds it or waits.
func (c *Coordinator) hold(d *desk, mode string) {
	d.catchUp()
	if d.copy == nil {
		d.turn = false // ask again: the answer has the room
		return
	}
	who := d.listed
	batch, more := d.take(c.opts.MaxBatch)
	if len(batch) == 0 {
		c.giveUp(d)
		return
	}
	d.turn, d.inLine, d.retired = false, false, false
	token, heir := d.ticket.Token(), ""
	next := d.ticket.Renew()
	switch {
	case mode != modeHeld:
	case more:
		heir = next // keeps our place in the line, or the lock if nobody waits there
	case d.place.pays && !d.alone:
		heir, mode = next, modeKeep
	}
	outcomes, at, err := c.apply(d, batch, who, token, heir, mode)
	switch {
	case errors.Is(err, errLost) && mode == modeElided:
		d.alone = false
		d.putBack(batch)
		return
	case errors.Is(err, errLost):
		c.troubles.stale.Happened(nil, "room", d.id)
		d.putBack(batch)
		return
	case err != nil:
		d.inLine = heir != "" // if it was written after all
		for _, r := range batch {
			r.fail(err)
		}
		return
	}
	d.turn, d.inLine = at == placeHolds, heir != "" && at != placeNone
	d.place.leaves()
	for i, r := range batch {
		r.done <- outcomes[i]
	}
	switch {
	case !d.inLine || d.turn:
	case more:
		c.queued(d)
	default:
		c.keepPlace(d)
	}
}

// queued waits for the turn of a token that a commit has put into the line.
func (c *Coordinator) queued(d *desk) {
	c.follow(d)
	d.ticket.Listen()
	ctx, end := d.patience(c.life)
	defer end()
	c.wait(ctx, d)
}

// maxStale is how often a room can turn out to be another one under its lock. Once is
// usual, and a second time takes that Redis loses something at that moment.
const maxStale = 10

// apply applies a batch to the copy and commits it under token. If the room turns out
// to be at another version it does so again; the lock is ours as long as that
// happens. It fails with errLost, ErrUnavailable or ErrUnknown.
func (c *Coordinator) apply(d *desk, batch []*request, who *identity, token, heir, mode string) (outcomes []outcome, next place, err error) {
	outcomes = make([]outcome, len(batch))
	for stale := 0; ; stale++ {
		for i, r := range batch {
			outcomes[i] = outcome{}
			a := r.action
			if a.kind != kindEvict && a.kind != kindRenew {
				a.node = who.node
			}
			outcomes[i].result.Node = who.node
			outcomes[i].result.Seat, outcomes[i].err = d.copy.Apply(a, c.opts.Rules)
			d.confirm(a, outcomes[i].err, c.opts.Replicas)
		}
		var room *Room
		commit := c.store.prepare(d.copy, d.keys, who, token, heir, mode)
		next, room, err = c.commit(d, commit)
		switch {
		case errors.Is(err, errStale) && stale == maxStale:
			d.copy = nil
			d.ticket.Return(token)
			return nil, next, c.unavailable(d.id, err)
		case errors.Is(err, errStale):
			c.follow(d) // somebody else has written to it, or a failover has lost something
			room.wentBack(d.copy.Epoch, d.copy.Version, d.copy.mark)
			d.copy = room
			if mode == modeElided {
				return nil, next, errLost // better to wait in line than to race
			}
			continue
		case errors.Is(err, errLost), errors.Is(err, ErrUnavailable):
			d.copy.Revert()
			return nil, next, err
		case err != nil:
			d.copy = nil
			return nil, next, err
		}
		if commit.event != nil {
			d.acked = commit.mark
			if commit.unheard != "" {
				c.troubles.unheard.Happened(errors.New(commit.unheard), "room", d.id)
			}
			c.feeds.committed(d.id, commit.event)
		}
		if d.copy.renewed {
			c.troubles.partial.Happened(nil, "room", d.id)
		}
		d.copy.commit(commit.epoch, commit.mark)
		snapshot := d.copy.Snapshot()
		for i := range outcomes {
			outcomes[i].result.Snapshot = snapshot
		}
		return outcomes, next, nil
	}
}

// confirm sees to it that an action which has changed nothing is acknowledged no sooner
// than what it found. To be refused promises nothing. But who has joined, heard that the
// outcome is unknown, and joins again, is told: you are in. If the replicas are not known
// to have that, the room gets a version that they have to have.
func (d *desk) confirm(a Action, refused error, replicas int) {
	if replicas > 0 && refused == nil && a.user != "" && d.copy.mark != d.acked {
		d.copy.confirm = true
	}
}

// commit writes what was done to the room, and gives the lock back with it. When
// the reply stays away it sends the same commit again, which settles whether it
// was written, until a TTL has passed: by then no copy of it can be carried out
// any more. It fails with errLost, errStale, ErrUnavailable or ErrUnknown.
func (c *Coordinator) commit(d *desk, commit *commit) (next place, room *Room, err error) {
	end := time.Now().Add(c.opts.LockTTL)
	next, room, err = c.store.send(c.timeout.Context(), d.ticket, commit)
	if !settled(err) {
		c.troubles.replies.Happened(err, "room", d.id)
		next, room, err = c.resend(d, commit, end, err)
	}
	if errors.Is(err, errRefused) {
		d.ticket.Return(commit.token())
		err = c.unavailable(d.id, err)
	}
	return next, room, err
}

func (c *Coordinator) resend(d *desk, commit *commit, end time.Time, why error) (next place, room *Room, err error) {
	commit.void()
	ctx, cancel := context.WithDeadline(c.life, end)
	defer cancel()
	pause := time.NewTicker(max(c.opts.LockPoll, 10*time.Millisecond))
	defer pause.Stop()
	var shut <-chan struct{}
	if errors.Is(why, errUnacked) { // it is written; who is closed does not wait for replicas
		shut = c.open.Done()
	}
	for {
		select {
		case <-shut:
			cancel()
		case <-ctx.Done():
		case <-pause.C:
		}
		if ctx.Err() != nil {
			d.ticket.Return(commit.token())
			return next, nil, fmt.Errorf("room %s: %w: %w", d.id, ErrUnknown, why)
		}
		next, room, err = c.store.send(ctx, d.ticket, commit)
		switch {
		case errors.Is(err, errStale):
			// A token that may be on its way twice is not used for anything else.
			d.ticket.Return(commit.token())
			return next, nil, errLost
		case settled(err):
			return next, room, err
		}
		if ctx.Err() == nil {
			why = err
		}
	}
}

// settled reports whether an answer of store.send says what became of the commit.
func settled(err error) bool {
	return err == nil || errors.Is(err, errLost) || errors.Is(err, errStale) || errors.Is(err, errRefused)
}

// unavailable wraps what Redis, or the way there, failed with.
func (c *Coordinator) unavailable(id string, err error) error {
	return fmt.Errorf("room %s: %w: %w", id, ErrUnavailable, err)
}
