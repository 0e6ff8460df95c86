package lockmgr

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Process sends a command of the caller's, about key, as the Manager sends its own:
// together with others if it is Pipelined. It returns the command's error, or the
// cause of ctx; the command may then still be carried out, and must not be looked
// at.
func (m *Manager) Process(ctx context.Context, key string, cmd redis.Cmder) error {
	if ctx == nil {
		return fmt.Errorf("lockmgr: %w", errNilContext)
	}
	if err := m.process(ctx, key, cmd); err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
