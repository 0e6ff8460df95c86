package room

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Start announces the node: from now on it is known to others, and removes the
// members of those that have died. Without it that begins with the first action.
// It fails with [ErrUnavailable] or [ErrClosed].
func (c *Coordinator) Start(ctx context.Context) error {
	if _, valid := c.lease.holder(); !valid {
		switch err := c.believe(ctx); {
		case errors.Is(err, ErrClosed):
			return ErrClosed
		case err != nil:
			return fmt.Errorf("announce the node: %w: %w", ErrUnavailable, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.watching:
		return nil
	case c.closed:
		return ErrClosed
	}
	c.watching = true
	c.guards.Go(c.keepLease)
	c.guards.Go(c.lookForGhosts)
	c.guards.Go(c.tidy)
	return nil
}

// keepLease prolongs the node's lease as long as the coordinator is open.
func (c *Coordinator) keepLease() {
	for pause(c.open, c.opts.NodeTTL/3); c.open.Err() == nil; pause(c.open, c.opts.NodeTTL/3) {
		if err := c.believe(c.open); err != nil && c.open.Err() == nil {
			c.troubles.lease.Happened(err)
		}
	}
}

// AnswerFor has fn say whether a session of this node's is still to be in a room. It has
// to be called before the first action, and fn must return at once and may not call the
// Coordinator. Without it nobody is asked.
//
// It is for rooms of which Redis has an old copy again: in that are members who have left
// since. Nobody else would remove those under the name of a node that lives.
func (c *Coordinator) AnswerFor(fn func(room, session string) bool) { c.answerFor = fn }

// forgot removes from a room of which Redis has an old copy those members of this node for
// whom no session answers any more.
func (c *Coordinator) forgot(ctx context.Context, r *Room) {
	if c.answerFor == nil {
		return
	}
	who, _ := c.lease.holder()
	for user, m := range r.members {
		session := strings.TrimPrefix(m.Session, detached)
		if m.Node != who.node || c.answerFor(r.ID, session) {
			continue
		}
		if _, err := c.run(ctx, r.ID, Leave(user, session)); err != nil && !errors.Is(err, ErrNotMember) && ctx.Err() == nil {
			c.troubles.epochs.Happened(err, "room", r.ID) // tidy's next visit is another attempt
		}
	}
}

// believe prolongs the lease. If it was lost, everybody who is live here has to join
// again, under the node's new name. When ctx ends the attempt goes on without the
// caller.
func (c *Coordinator) believe(ctx context.Context) error {
	attempt := c.lease.attempts.DoChan("", func() (any, error) {
		if c.lease.life.Err() != nil {
			return nil, ErrClosed
		}
		before, _ := c.lease.holder()
		renewed, err := c.lease.refresh(c.lease.life)
		if renewed {
			now, _ := c.lease.holder()
			c.troubles.renamed.Happened(nil, "was", before.node, "node", now.node)
			c.feeds.rejoin()
		}
		return nil, err
	})
	select {
	case result := <-attempt:
		return result.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
