package redistest

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Hook calls functions of a test before and after each command of a client. Add it by client.AddHook. A nil
// function does nothing.
type Hook struct {
	// Before is called before a command is sent. If it returns an error, the command is not sent and fails with
	// that error, like a request that is lost.
	Before func(ctx context.Context, cmd redis.Cmder) error

	// After is called when the server has executed a command and replied without an error. If After returns an
	// error, the caller gets that error instead of the reply, like a reply that is lost.
	After func(ctx context.Context, cmd redis.Cmder) error
}

// DialHook implements redis.Hook.
func (h Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.run(ctx, []redis.Cmder{cmd}, func(ctx context.Context, _ []redis.Cmder) error {
			err := next(ctx, cmd)
			if err != nil {
				cmd.SetErr(err) // the client does so later
			}
			return err
		})
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h.run(ctx, cmds, next) }
}

// run calls Before, sends the commands that Before allows, and calls After.
func (h Hook) run(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) (failure error) {
	call := func(f func(context.Context, redis.Cmder) error, cmd redis.Cmder) bool {
		if f == nil {
			return true
		}
		err := f(ctx, cmd)
		if err != nil {
			cmd.SetErr(err)
			failure = err
		}
		return err == nil
	}
	arrive := slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool { return !call(h.Before, cmd) })
	if len(arrive) == 0 {
		return failure
	}
	if err := next(ctx, arrive); err != nil {
		failure = err
	}
	for _, cmd := range arrive {
		if cmd.Err() == nil {
			call(h.After, cmd)
		}
	}
	return failure
}
