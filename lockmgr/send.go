package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
)

// A caller sends its request itself where possible: a goroutine for each request would cost as much as Redis does. But
// while go-redis waits for a reply, it does not notice that a context was cancelled. So the caller waits for a moment
// only. If Redis does not answer in that time, this request and later ones of the next second get goroutines, and
// their callers end with their contexts at once.
const (
	// directTimeout is about how long a caller waits itself. With two clean-ups of cleanupWait each it makes up
	// the promised quarter of a second: AcquireAll abandons an attempt, and then releases its locks.
	directTimeout = 150 * time.Millisecond

	// slowAnswer is how long an answer may take before Redis counts as slow, even if the caller itself waits
	// less than directTimeout.
	slowAnswer = 50 * time.Millisecond

	// slowFor is how long Redis counts as slow after a slow answer.
	slowFor = time.Second

	// ownTimeout bounds a request that does not end with its caller.
	ownTimeout = 3 * time.Second
)

var (
	// errSlow says that Redis did not answer within directTimeout. It may have executed the request.
	errSlow = errors.New("redis is slow")

	// errNoAnswer says that Redis did not answer within ownTimeout, or left a sending unanswered maxDoubts times.
	errNoAnswer = errors.New("redis did not answer")
)

// sender sends the requests of a Manager, each by itself or several in one round trip.
type sender struct {
	client    redis.UniversalClient
	load      func(ctx context.Context, key string, script *redis.Script) error // Options.Load
	life      *lifetime
	pipelined bool
	pipe      *redis.AutoPipeliner // nil unless pipelined on a single server

	direct  *redisconn.SharedTimeout // for requests that callers wait for themselves
	sharing *redisconn.SharedTimeout // the same, for those that may share a round trip
	own     *redisconn.SharedTimeout // for requests that do not end with their callers

	underway  atomic.Int64 // number of requests, if pipelined
	began     time.Time
	slowUntil atomic.Int64 // in ns since began; 0 if Redis was never slow
}

func newSender(client redis.UniversalClient, opts Options, life *lifetime) (*sender, error) {
	s := &sender{client: client, load: opts.Load, life: life, pipelined: opts.Pipelined, began: time.Now()}
	s.own = redisconn.NewSharedTimeout(context.WithValue(context.Background(), sendMode{}, sendUnattended), ownTimeout)
	s.direct = redisconn.NewSharedTimeout(context.WithValue(life.ctx, sendMode{}, sendDirectly), directTimeout)
	s.sharing = redisconn.NewSharedTimeout(life.ctx, directTimeout)
	var err error
	if _, cluster := client.(*redis.ClusterClient); s.pipelined && !cluster {
		s.pipe, err = client.AsyncAutoPipelineWithOptions(pipelining)
	}
	return s, err
}

// sendMode is a context's key for how its requests are sent. Without it they may share a round trip.
type sendMode struct{}

const (
	sendDirectly   = "directly"   // by the caller, without a pipeline
	sendUnattended = "unattended" // they go on when their callers have given up
)

// run runs a script, and retries it while the slot of its keys moves.
func (s *sender) run(ctx context.Context, script *redis.Script, on scriptKeys, args ...any) (reply *redis.Cmd) {
	err := redisconn.UntilMoved(ctx, func() error {
		reply = s.eval(ctx, script, on, args)
		return reply.Err()
	})
	if err != nil && ctx.Err() != nil { // ctx may have ended while run waited for the slot
		reply.SetErr(context.Cause(ctx))
	}
	return reply
}

// eval sends a script once, by its hash. If the server does not know it, eval sends the whole script, or loads
// it and sends the hash again.
func (s *sender) eval(ctx context.Context, script *redis.Script, on scriptKeys, args []any) (cmd *redis.Cmd) {
	command, whole := func() []any { return on.command(script, args...) }, false
	err := redisconn.UntilKnown(func() error {
		if whole {
			cmd = script.Eval(ctx, s.client, on.keys, command()[3+len(on.keys):]...)
		} else {
			cmd = s.process(ctx, on.keys[0], command)
		}
		return cmd.Err()
	}, func() error {
		for _, arg := range command() {
			switch arg := arg.(type) {
			case *sends:
				arg.sent.Add(-1) // this copy was not executed
			case *tokens:
				arg.answered()
			}
		}
		if err := s.refuseOld(ctx); err != nil {
			return err
		}
		if whole = s.load == nil; whole {
			return nil
		}
		return s.load(ctx, on.keys[0], script)
	})
	if err != nil {
		cmd.SetErr(err)
	}
	return cmd
}

// refuseOld returns an ErrInvalid if the server is too old. It is called before a server gets a script for the
// first time. A user without the right to ask for the version is not refused.
func (s *sender) refuseOld(ctx context.Context) error {
	text, _ := s.client.Info(ctx, "server").Result()
	if info := redisconn.ParseInfo(text); info.IsTooOld() {
		return fmt.Errorf("the server is %s, it must be at least Redis %d.0: %w", info.Product(), redisconn.MinRedis,
			ErrInvalid)
	}
	return nil
}

// unattended sends a request that goes on when its caller has given up.
func (s *sender) unattended(send func(ctx context.Context) *redis.Cmd) (*redis.Cmd, error) {
	ctx := s.own.Context()
	cmd := send(ctx)
	return cmd, noAnswer(ctx, cmd.Err())
}

// noAnswer returns errNoAnswer if the request's own context, ctx, ended it; otherwise err.
func noAnswer(ctx context.Context, err error) error {
	if deadline, _ := ctx.Deadline(); !redisconn.Answered(err) && !time.Now().Before(deadline) {
		return errNoAnswer
	}
	return err
}

// isPrompt reports whether Redis has not been slow lately. It is false for a closed Manager, whose callers send
// nothing themselves.
func (s *sender) isPrompt() bool {
	until := s.slowUntil.Load()
	return (until == 0 || int64(time.Since(s.began)) > until) && s.life.ctx.Err() == nil
}

// isIdle reports whether no request is under way that another could share a round trip with.
func (s *sender) isIdle() bool { return s.underway.Load() == 0 }

// byCaller sends a request in the caller's goroutine. It fails with errSlow, the cause of ctx, ErrClosed, or the
// client's error. abandoned is not nil if the request may still be in a pipeline.
func (s *sender) byCaller(ctx context.Context,
	send func(ctx context.Context) *redis.Cmd) (_ *redis.Cmd, abandoned *pending, _ error) {
	sent := time.Now()
	own, idle := s.sharing.ContextAt(sent), s.isIdle()
	if idle {
		own = s.direct.ContextAt(sent)
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(sent) < directTimeout {
		if own = ctx; idle {
			own = context.WithValue(ctx, sendMode{}, sendDirectly)
		}
	}
	cmd := send(own)
	err := cmd.Err()
	if redisconn.Answered(err) {
		return cmd, nil, err
	}
	if time.Since(sent) > slowAnswer {
		s.slowUntil.Store(int64(time.Since(s.began) + slowFor))
	}
	if p, ok := cmd.Val().(pending); ok {
		abandoned = &p
	}
	if deadline, _ := own.Deadline(); !time.Now().Before(deadline) {
		<-own.Done() // the client compares times, while a context has a timer, which may fire later
	}
	switch ended := s.life.ended(ctx); {
	case ended != nil:
		return nil, abandoned, ended
	case own.Err() == nil:
		return cmd, abandoned, err
	}
	return nil, abandoned, errSlow
}

// read sends a command that reads a key, and waits directTimeout at most. If Redis is slow, it fails at once.
func (s *sender) read(ctx context.Context, command, key string) (*redis.Cmd, error) {
	if !s.isPrompt() {
		return nil, errSlow
	}
	cmd, _, err := s.byCaller(ctx, func(ctx context.Context) *redis.Cmd {
		return s.process(ctx, key, func() []any { return []any{command, key} })
	})
	return cmd, err
}

// failed returns a command with the cause of ctx as its error.
func failed(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(context.Cause(ctx))
	return cmd
}

// pipelining sends each request as soon as possible; requests that arrive meanwhile travel together. Their
// order does not matter: each has a caller of its own, who waits for the reply.
//
// go-redis holds a queue until the callers of its last batch have had time to ask again, or maxBatch requests wait.
// Without that number, most requests travel together, and Redis and the callers wait for each other: in roomload bench
// --workload locks-1000 128 callers then get 0.62 to 0.71 as many locks. With two queues, one is at Redis while the
// other fills.
var pipelining = &redis.AutoPipelineOptions{MaxConcurrentBatches: maxConcurrentBatches, Unordered: true, NumShards: 2,
	MaxBatchSize: maxBatch}

const (
	// maxConcurrentBatches limits the pipelines under way to one server.
	maxConcurrentBatches = 8

	// maxBatch is how many waiting requests are sent at once. More only make Redis wait.
	maxBatch = 32

	// maxDirect is the number of requests under way above which requests share round trips. Below it there is
	// little to share, and the way to the pipeline's goroutine and back takes longer than Redis does: the
	// caller sends its request itself.
	maxDirect = 4
)

// pending is a request in a pipeline. The pipeline sends it even if its caller abandons it.
type pending struct {
	cmd   *redis.Cmd
	sent  redis.AutoFuture
	again *call[struct{}] // its second sending, by itself; nil if there is none
}

// wait waits until the request has ended.
func (p pending) wait(ctx context.Context) error {
	if p.again == nil {
		return p.sent.WaitContext(ctx)
	}
	_, err := p.again.wait(ctx)
	return err
}

// process sends a command about key, together with others if the sender is pipelined and busy. If ctx ends first, the
// reply is that of failed, and its value a pending if the command is in a pipeline.
func (s *sender) process(ctx context.Context, key string, command func() []any) *redis.Cmd {
	if s.pipelined {
		direct := s.underway.Add(1) <= maxDirect
		defer s.underway.Add(-1)
		// A pipeline has no bound, so requests that Redis does not answer must not pile up in it.
		mode := ctx.Value(sendMode{})
		if !direct && mode != sendDirectly && (mode != sendUnattended || s.isPrompt()) {
			if pipe := s.pipeTo(ctx, key); pipe != nil {
				return s.share(ctx, pipe, command)
			}
		}
	}
	cmd := newCmd(ctx, command())
	namedBy(cmd)
	err := s.client.Process(ctx, cmd)
	redisconn.SeekMaster(ctx, s.client, err)
	if err != nil && ctx.Err() != nil {
		return failed(ctx)
	}
	return cmd
}

func newCmd(ctx context.Context, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	if args[0] == "evalsha" {
		cmd.SetFirstKeyPos(3)
	}
	return cmd
}

// namedBy tells the tokens among a request's arguments that it carries them.
func namedBy(request *redis.Cmd) {
	for _, arg := range request.Args() {
		if t, ok := arg.(*tokens); ok {
			t.sentBy(request)
		}
	}
}

// share sends a command together with others. If Redis did not answer, or a slot has moved, share sends the
// command again by itself. The pipeline ignores ctx, and may send the command after ctx has ended.
func (s *sender) share(ctx context.Context, pipe *redis.AutoPipeliner, command func() []any) *redis.Cmd {
	p := submit(ctx, pipe, command())
	cmd, err := p.cmd, p.wait(ctx)
	if ctx.Err() == nil && (redisconn.SeekMaster(ctx, s.client, err) || !redisconn.Answered(err)) {
		copy(cmd.Args(), command())
		namedBy(cmd)
		p.again = start(s.life, func() (struct{}, error) { return struct{}{}, s.client.Process(ctx, cmd) })
		err = p.wait(ctx)
	}
	if err == nil || ctx.Err() == nil {
		return cmd
	}
	reply := failed(ctx)
	reply.SetVal(p)
	return reply
}

// submit puts a command into a pipeline.
//
// A pipeline marshals a command more than once to know its size, so arguments cannot count how often it is sent.
// Therefore submit replaces these by their texts, and the pipeline sends the command only once; share repeats it.
// All commands are sent this way, because one that may not be repeated would split a batch.
func submit(ctx context.Context, pipe *redis.AutoPipeliner, args []any) pending {
	for i, arg := range args {
		switch arg := arg.(type) {
		case *tokens:
			arg.sentBy(nil) // a request in a pipeline must not be asked for its error before it has ended
			args[i] = arg.text()
		case sending:
			args[i] = arg.text()
		}
	}
	cmd := newCmd(ctx, args)
	return pending{cmd: cmd, sent: pipe.Submit(ctx, redisconn.Once{Cmder: cmd})}
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
