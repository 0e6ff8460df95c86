package lockmgr

import (
	"context"
	"encoding"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// pipelining says how requests share round trips: each is sent as soon as possible, and
// those that come meanwhile go together. They are of different callers, each of whom
// waits for its reply, so their order does not matter.
//
// go-redis holds a queue until those whom its last batch has woken have asked again. So with one queue most requests
// go to and fro together, and Redis and the callers wait for each other. With two, one is at Redis while the other fills: in
// roomload bench --workload 1000-rooms-128 two cores are idle for 24 % of the time and not for 31 %. More queues only make
// batches smaller.
var pipelining = &redis.AutoPipelineOptions{MaxConcurrentBatches: maxConcurrentBatches, Unordered: true, NumShards: 2}

const (
	// maxConcurrentBatches is how many pipelines to one server may be under way.
	maxConcurrentBatches = 8

	// maxDirect is how many requests are under way from which on others share round trips. Below that there is little to
	// share, and handing a request to the pipeline's goroutine and back takes longer than Redis does: so its caller
	// sends it by itself.
	maxDirect = 4
)

// pending is a request that shares a round trip and that its caller may abandon: a
// pipeline sends it all the same. It is the value of the context's sendMode.
type pending struct {
	wait func(ctx context.Context) error // for its end
	cmd  *redis.Cmd                      // nil unless it was abandoned
}

// process sends a command about key, together with others if the sender is pipelined.
// When ctx has ended cmd must not be looked at.
func (s *sender) process(ctx context.Context, key string, cmd *redis.Cmd) error {
	if s.pipelined {
		direct := s.underway.Add(1) <= maxDirect
		defer s.underway.Add(-1)
		// What Redis does not answer must not pile up in a pipeline, which has no bound.
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

// share sends a command together with others, and again by itself if that was not answered. The
// pipeline does not heed ctx, and may send the command after ctx has ended; so the command is
// noted if its caller abandons it.
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

// submit puts a command into a pipeline, and returns how to wait for its end.
//
// A pipeline asks for the size of a command as if it sent it, so arguments cannot count how often
// it does. Therefore it gets a copy of each command, to be sent once: of each, because a batch of
// commands that may be sent again ends where one comes that may not. share sends it again.
func submit(ctx context.Context, pipe *redis.AutoPipeliner, original *redis.Cmd) (wait func(ctx context.Context) error) {
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

// pipeTo returns the pipeline for requests about key, or nil if there is none at the
// moment.
//
// On Redis Cluster each master has a pipeline of its own, and the client of the cluster
// takes over what did not get through there. go-redis has one for a whole cluster as
// well, but there a master that hangs holds up the requests to all others, and while
// slots move one request may be sent to two servers at once, whose replies then race.
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
