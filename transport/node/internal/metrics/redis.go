package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// roundTrips counts requests to Redis. It is a hook that changes nothing.
type roundTrips struct {
	single, pipeline         prometheus.Observer
	commands                 prometheus.Counter
	noAnswer, refused, moved prometheus.Counter
}

func newRoundTrips(r prometheus.Registerer) *roundTrips {
	took := histograms(r, "redis_round_trip_seconds",
		"How long requests to Redis took, of one command or of several (pipeline), with a retry if there was one.",
		"kind", times)
	failed := counters(r, "redis_errors_total", "Requests that Redis did not answer, and commands that it refused, or of which the slot is moving.", "reason")
	return &roundTrips{
		single: took.WithLabelValues("command"), pipeline: took.WithLabelValues("pipeline"),
		commands: counter(r, "redis_commands_total", "Commands that were sent to Redis."),
		noAnswer: failed.WithLabelValues("no_answer"), refused: failed.WithLabelValues("refused"),
		moved: failed.WithLabelValues("moved"),
	}
}

// Hook counts the requests of a client. Call it before the first request. On a Cluster each server's client has the
// hook, because pipelines to one server bypass the cluster's own.
func (m *Metrics) Hook(client redis.UniversalClient) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(m.redis) })
		return
	}
	client.AddHook(m.redis)
}

// DialHook implements redis.Hook.
func (*roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (t *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isGreeting(cmd) {
			return next(ctx, cmd)
		}
		start := time.Now()
		err := next(ctx, cmd)
		t.single.Observe(time.Since(start).Seconds())
		t.commands.Inc()
		if err != nil {
			t.failed(err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (t *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && isGreeting(cmds[0]) {
			return next(ctx, cmds)
		}
		start := time.Now()
		err := next(ctx, cmds)
		t.pipeline.Observe(time.Since(start).Seconds())
		t.commands.Add(float64(len(cmds)))
		switch {
		// err covers all commands. Asking each would cost a stack trace: Err checks whether its goroutine is the
		// pipeline's.
		case err == nil:
			return nil
		case !isReply(err):
			t.failed(err) // once for all commands
			return err
		}
		for _, cmd := range cmds {
			if failed := cmd.Err(); failed != nil && isReply(failed) {
				t.failed(failed)
			}
		}
		return err
	}
}

// failed counts an error, except for a missing key, a script that a server does not know yet, and a caller that gave
// up.
func (t *roundTrips) failed(err error) {
	switch {
	case errors.Is(err, redis.Nil), errors.Is(err, context.Canceled), redis.HasErrorPrefix(err, "NOSCRIPT"):
	case !isReply(err):
		t.noAnswer.Inc()
	case redis.HasErrorPrefix(err, "MOVED"), redis.HasErrorPrefix(err, "ASK"), redis.HasErrorPrefix(err, "TRYAGAIN"):
		t.moved.Inc()
	default:
		t.refused.Inc()
	}
}

// isGreeting reports whether a command belongs to the start of a connection. Older servers refuse some of these,
// which is harmless; after a harmful refusal the command that needed the connection fails as well.
func isGreeting(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "client", "select", "readonly":
		return true
	}
	return false
}

func isReply(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}
