package redistest

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// Hook calls functions of a test before and after each command of a client, to which
// client.AddHook adds it. A nil function does nothing.
type Hook struct {
	// Before is called before a command is sent. If it returns an error, the command is not
	// sent and fails with that: a request that never arrived.
	Before func(ctx context.Context, cmd redis.Cmder) error

	// After is called when the server has executed a command. If it returns an error, the
	// caller gets that instead of the reply: a reply that was lost.
	After func(ctx context.Context, cmd redis.Cmder) error
}

// DialHook implements redis.Hook.
func (h Hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.Before != nil {
			if err := h.Before(ctx, cmd); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		if err := next(ctx, cmd); err != nil {
			return err
		}
		if h.After != nil {
			if err := h.After(ctx, cmd); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return nil
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		arrive := make([]redis.Cmder, 0, len(cmds))
		var failure error
		for _, cmd := range cmds {
			if h.Before != nil {
				if err := h.Before(ctx, cmd); err != nil {
					cmd.SetErr(err)
					failure = err
					continue
				}
			}
			arrive = append(arrive, cmd)
		}
		if len(arrive) == 0 {
			return failure
		}
		if err := next(ctx, arrive); err != nil {
			failure = err
		}
		for _, cmd := range arrive {
			if h.After == nil || cmd.Err() != nil {
				continue
			}
			if err := h.After(ctx, cmd); err != nil {
				cmd.SetErr(err)
				failure = err
			}
		}
		return failure
	}
}
