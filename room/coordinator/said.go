package coordinator

import (
	"context"
	"fmt"

	"roomd/room"
)

// Kept returns the last messages that a room has kept under its settings, at most so many. It fails with
// [room.ErrInvalid], [room.ErrUnavailable] or the cause of ctx.
func (c *Coordinator) Kept(ctx context.Context, id string, most int) (room.Kept, error) {
	if err := room.CheckID(id); err != nil {
		return room.Kept{}, err
	}
	kept, err := c.store.Kept(ctx, id, most)
	switch {
	case err != nil && ctx.Err() != nil:
		return room.Kept{}, context.Cause(ctx)
	case err != nil:
		return room.Kept{}, fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return kept, nil
}
