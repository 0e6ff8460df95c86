package lockmgr

import (
	"context"
	"runtime"
	"testing"

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
