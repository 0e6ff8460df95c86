package lockmgr

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Run runs a script that was made by [NewScript] on the lock of that name: its keys and
// arguments come before those given, so that yours begin at KEYS[4] and ARGV[3].
//
// While a slot moves from one master of a Redis Cluster to another, the keys of a
// lock may be here and there, and Redis refuses to touch them (TRYAGAIN), or sends
// the client to and fro until that gives up (ASK, MOVED). Run then asks again until
// they are together, or ctx ends.
func (m *Manager) Run(ctx context.Context, script *redis.Script, name string, keys []string, args ...any) *redis.Cmd {
	if ctx == nil {
		cmd := redis.NewCmd(context.Background())
		cmd.SetErr(fmt.Errorf("lockmgr: run on %q: %w", name, errNilContext))
		return cmd
	}
	return m.runOn(ctx, script, m.onKeys(append(m.Keys(name), keys...)), args...)
}

// runOn is Run with all keys.
func (m *Manager) runOn(ctx context.Context, script *redis.Script, on onKeys, args ...any) *redis.Cmd {
	for {
		reply := m.eval(ctx, script, on, args)
		err := reply.Err()
		if !redis.IsTryAgainError(err) && !redirected(err) {
			return reply
		}
		if pause(ctx, m.opts.Poll) != nil {
			return failed(ctx)
		}
	}
}

// onKeys is what the scripts on some keys have in common.
type onKeys struct {
	keys []string
	sent []any // how many keys, the keys, and what ARGV begins with
}

func (m *Manager) onKeys(keys []string) onKeys {
	sent := make([]any, 0, 1+len(keys)+len(m.first))
	sent = append(sent, len(keys))
	for _, key := range keys {
		sent = append(sent, key)
	}
	return onKeys{keys, append(sent, m.first...)}
}

// lockKeys is how many keys a lock has.
const lockKeys = 3

// lockOnly returns the same without the keys that are not the lock's.
func (on onKeys) lockOnly() onKeys {
	if len(on.keys) <= lockKeys {
		return on
	}
	sent := append([]any{lockKeys}, on.sent[1:1+lockKeys]...)
	return onKeys{on.keys[:lockKeys], append(sent, on.sent[1+len(on.keys):]...)}
}

// command returns the whole of a command that runs a script: by its hash (evalsha),
// or by its text (eval).
func (on onKeys) command(name, what string, args []any) []any {
	all := make([]any, 0, 2+len(on.sent)+len(args))
	return append(append(append(all, name, what), on.sent...), args...)
}

// eval sends a script once: by its hash, and as a whole only to a server that does
// not know it.
func (m *Manager) eval(ctx context.Context, script *redis.Script, on onKeys, args []any) *redis.Cmd {
	all := on.command("evalsha", script.Hash(), args)
	cmd := redis.NewCmd(ctx, all...)
	cmd.SetFirstKeyPos(3)
	err := m.process(ctx, on.keys[0], cmd)
	switch {
	case err != nil && ctx.Err() != nil:
		return failed(ctx) // the pipeline may still be writing to cmd
	case err != nil && redis.HasErrorPrefix(err, "NOSCRIPT"):
		for _, arg := range args {
			if count, ok := arg.(*sends); ok {
				count.sent.Store(0) // it was not carried out
			}
		}
		return script.Eval(ctx, m.client, on.keys, all[3+len(on.keys):]...)
	}
	return cmd
}

// process sends a command about key, together with others if the Manager is
// Pipelined. When ctx ended cmd must not be looked at.
//
// While no other is under way there is nothing to share, and the caller sends it by
// itself: handing it to the pipeline's goroutine and back takes as long as Redis does.
func (m *Manager) process(ctx context.Context, key string, cmd redis.Cmder) error {
	if m.opts.Pipelined {
		alone := m.underway.Add(1) == 1
		defer m.underway.Add(-1)
		// What Redis does not answer must not pile up in a pipeline, which has no end.
		mode := ctx.Value(sendMode{})
		if !alone && mode != sendDirectly && (mode != sendUnattended || m.prompt()) {
			if pipe := m.pipeTo(ctx, key); pipe != nil {
				return m.share(ctx, pipe, cmd, mode)
			}
		}
	}
	err := m.client.Process(ctx, cmd)
	m.seekMaster(ctx, err)
	return err
}

// share sends a command together with others. The pipeline does not heed ctx, and may send
// the command when that has ended; so one that is left behind is noted.
func (m *Manager) share(ctx context.Context, pipe *redis.AutoPipeliner, cmd redis.Cmder, mode any) error {
	sent := pipe.Submit(ctx, cmd)
	err := sent.WaitContext(ctx)
	if share, ok := mode.(*pending); ok && ctx.Err() != nil {
		share.sent, share.cmd = sent, cmd
	}
	if ctx.Err() != nil || !m.seekMaster(ctx, err) {
		return err
	}
	_, err = start(m, func() (struct{}, error) { return struct{}{}, m.cluster.Process(ctx, cmd) }).wait(ctx)
	return err
}

// seekMaster has the client of a Cluster look who has which slots, if a server did not
// answer, or is not the one to ask: its replica may be the master now. By itself the
// client looks once a minute.
func (m *Manager) seekMaster(ctx context.Context, err error) bool {
	if m.cluster == nil || !misdirected(err) {
		return false
	}
	m.cluster.ReloadState(ctx)
	return true
}

// pipeTo returns what has requests about key share round trips with others, or nil
// if there is no such thing at the moment.
//
// On Redis Cluster each master has one of its own, and the client of the cluster
// takes over what did not get through there. go-redis has one for a whole cluster as
// well, but there a master that hangs holds up the requests to all others, and while
// slots move one request may be sent to two servers at once, whose replies then
// race.
func (m *Manager) pipeTo(ctx context.Context, key string) *redis.AutoPipeliner {
	if m.cluster == nil {
		return m.pipe
	}
	master, err := m.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil
	}
	pipe, err := master.AsyncAutoPipelineWithOptions(pipelining)
	if err != nil {
		return nil // the server has just left the cluster
	}
	return pipe
}

// misdirected reports whether a server did not answer, or is not the one to ask.
func misdirected(err error) bool {
	var reply redis.Error
	return err != nil && !errors.As(err, &reply) || redirected(err)
}

// redirected reports whether a server of a Redis Cluster named another one.
func redirected(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask
}

// failed returns a command that ended with its context.
func failed(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(context.Cause(ctx))
	return cmd
}

// pipelining says how requests share round trips: as soon as one can be sent it is,
// and those that come meanwhile go together. They are of different callers, each
// of whom waits for its reply, so their order does not matter.
var pipelining = &redis.AutoPipelineOptions{MaxConcurrentBatches: maxConcurrentBatches, Unordered: true}

// maxConcurrentBatches is how many pipelines to one server may be under way.
const maxConcurrentBatches = 8
