package lockmgr

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// The answer to a request that shares a round trip comes as its context ends: it is the answer,
// and the caller knows what became of the lock.
func TestAnAnswerThatComesAsTheContextEnds(t *testing.T) {
	_, client := redistest.Mini(t)
	m := newManager(t, client, Options{Pipelined: true})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := redis.NewCmd(t.Context(), "echo", newTokens(m.names, "a"))
	wait := submit(t.Context(), m.sender.pipe, cmd)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for wait(ended) != nil && t.Context().Err() == nil {
			runtime.Gosched()
		}
	}()
	redistest.Receive(t, answered, "the pipeline to answer")
	if got, err := cmd.Text(); err != nil || got == "" {
		t.Errorf("the answer is %q, %v", got, err)
	}
}

// pipelined counts the commands that share round trips, and those that go by themselves, and holds both up until it is closed.
type pipelined struct {
	shared, alone atomic.Int64
	let           chan struct{}
}

func (*pipelined) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelined) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "echo" {
			p.alone.Add(1)
			<-p.let
		}
		return next(ctx, cmd)
	}
}

func (p *pipelined) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "echo" {
			p.shared.Add(int64(len(cmds)))
			<-p.let
		}
		return next(ctx, cmds)
	}
}

// A few requests go out by themselves. Those beyond maxDirect share round trips.
func TestPipelined_AFewGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		p := &pipelined{let: make(chan struct{})}
		client.AddHook(p)
		m := newManager(t, client, Options{Pipelined: true})
		var all sync.WaitGroup
		send := func(n int) (alone int64) {
			before := p.alone.Load()
			for range n {
				all.Go(func() {
					cmd := redis.NewCmd(t.Context(), "echo", "hi")
					if err := m.sender.process(t.Context(), "a", cmd); err != nil || cmd.Val() != "hi" {
						t.Errorf("%v, %v", cmd.Val(), err)
					}
				})
			}
			time.Sleep(10 * time.Millisecond) // the pipeline looks for more
			return p.alone.Load() - before
		}
		redistest.Equal(t, "by themselves", send(maxDirect), maxDirect)
		send(50) // a pipeline of one is none
		if n := p.shared.Load(); n < 40 {
			t.Errorf("%d of 50 went together", n)
		}
		close(p.let)
		all.Wait()
	})
}
