package lockmgr

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
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
	got, err := cmd.Text()
	redistest.ErrorIf(t, err != nil || got == "", "the answer is %q, %v", got, err)
}

// A few requests go out by themselves. Those beyond maxDirect go through the pipeline, to share round trips.
func TestPipelined_AFewGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := redistest.Mini(t)
		var alone atomic.Int64
		held := make(chan struct{})
		client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "echo" {
				if _, shared := cmd.(redisconn.Once); !shared {
					alone.Add(1)
				}
				<-held
			}
			return nil
		}})
		m := newManager(t, client, Options{Pipelined: true})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				cmd := redis.NewCmd(t.Context(), "echo", "hi")
				err := m.sender.process(t.Context(), "a", cmd)
				redistest.ErrorIf(t, err != nil || cmd.Val() != "hi", "%v, %v", cmd.Val(), err)
			})
		}
		synctest.Wait()
		redistest.Equal(t, "by themselves", alone.Load(), maxDirect)
		close(held)
		all.Wait()
	})
}
