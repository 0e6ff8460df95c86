package lockmgr

import (
	"context"
	"encoding"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// pipelining sends each request as soon as possible; requests that arrive meanwhile travel together. Their
// order does not matter: each has a caller of its own, who waits for the reply.
//
// go-redis holds a queue until the callers of its last batch have had time to ask again. With one queue, most
// requests therefore travel together, and Redis and the callers wait for each other. With two, one is at Redis
// while the other fills: in roomload bench --workload 1000-rooms-128 two cores are idle for 24 % of the time
// instead of 31 %. More queues only make batches smaller.
var pipelining = &redis.AutoPipelineOptions{MaxConcurrentBatches: maxConcurrentBatches, Unordered: true, NumShards: 2}

const (
	// maxConcurrentBatches limits the pipelines under way to one server.
	maxConcurrentBatches = 8

	// maxDirect is the number of requests under way above which requests share round trips. Below it there is
	// little to share, and the way to the pipeline's goroutine and back takes longer than Redis does: the
	// caller sends its request itself.
	maxDirect = 4
)

// pending is a request in a pipeline that its caller may abandon; the pipeline sends it all the same. A context
// has it under the key sendMode.
type pending struct {
	wait func(ctx context.Context) error // waits until the request has ended
	cmd  *redis.Cmd                      // nil unless the caller abandoned it
}

// process sends a command about key; if the sender is pipelined, together with others. The caller must not read
// cmd when ctx has ended.
func (s *sender) process(ctx context.Context, key string, cmd *redis.Cmd) error {
	if s.pipelined {
		direct := s.underway.Add(1) <= maxDirect
		defer s.underway.Add(-1)
		// A pipeline has no bound, so requests that Redis does not answer must not pile up in it.
		mode := ctx.Value(sendMode{})
		if !direct && mode != sendDirectly && (mode != sendUnattended || s.isPrompt()) {
			if pipe := s.pipeTo(ctx, key); pipe != nil {
				return s.share(ctx, pipe, cmd, mode)
			}
		}
	}
	err := s.client.Process(ctx, cmd)
	redisconn.SeekMaster(ctx, s.client, err)
	return err
}

// share sends a command together with others. If Redis did not answer, or a slot has moved, share sends the
// command again by itself. The pipeline ignores ctx, and may send the command after ctx has ended; share then
// stores the command in mode, if mode is a *pending, so that the caller can wait for it.
func (s *sender) share(ctx context.Context, pipe *redis.AutoPipeliner, cmd *redis.Cmd, mode any) error {
	wait := submit(ctx, pipe, cmd)
	err := wait(ctx)
	if ctx.Err() == nil && (redisconn.SeekMaster(ctx, s.client, err) || !redisconn.Answered(err)) {
		again := start(s.life, func() (struct{}, error) { return struct{}{}, s.client.Process(ctx, cmd) })
		wait = func(ctx context.Context) error { _, err := again.wait(ctx); return err }
		err = wait(ctx)
	}
	if share, ok := mode.(*pending); ok && ctx.Err() != nil {
		share.wait, share.cmd = wait, cmd
	}
	return err
}

// submit puts a command into a pipeline, and returns a function that waits for its end.
//
// A pipeline marshals a command more than once to know its size, so arguments cannot count how often it is sent.
// Therefore the pipeline gets a copy with marshalled arguments, and sends that copy only once; share repeats the
// command. All commands are sent this way, because one that may not be repeated would split a batch.
func submit(ctx context.Context, pipe *redis.AutoPipeliner,
	original *redis.Cmd) (wait func(ctx context.Context) error) {
	args := slices.Clone(original.Args())
	for i, arg := range args {
		switch arg := arg.(type) {
		case *tokens, doubts, *sends:
			args[i], _ = arg.(encoding.BinaryMarshaler).MarshalBinary() // does not fail
		}
	}
	single := redis.NewCmd(ctx, args...)
	if strings.HasPrefix(original.Name(), "eval") {
		single.SetFirstKeyPos(3)
	}
	sent := pipe.Submit(ctx, redisconn.Once{Cmder: single})
	return func(ctx context.Context) error {
		err := sent.WaitContext(ctx)
		if redisconn.Answered(err) || ctx.Err() == nil { // the answer may come as ctx ends
			original.SetVal(single.Val())
			original.SetErr(err)
		}
		return err
	}
}

// pipeTo returns the pipeline for requests about key, or nil if there is none now.
//
// On Redis Cluster each master has a pipeline of its own, and the cluster's client sends again what failed
// there. go-redis also has one pipeline for a whole cluster. But then a master that hangs delays the requests
// to all others, and while slots move, one request may go to two servers at once, whose replies race.
func (s *sender) pipeTo(ctx context.Context, key string) *redis.AutoPipeliner {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.pipe
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil
	}
	pipe, err := master.AsyncAutoPipelineWithOptions(pipelining)
	if err != nil {
		return nil // the server has just left the cluster
	}
	return pipe
}
