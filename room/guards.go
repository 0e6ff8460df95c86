package room

import (
	"context"
	"errors"
	"fmt"
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
			c.opts.Log.Warn().Str("was", before.node).Str("node", now.node).Msg("the node's lease was lost; its sessions join again under a new name")
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
