package lockmgr

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// A request is sent again. If Redis had answered the first sending, by a redirection, that one was not carried out, and
// the second needs no other token.
func TestTokensOfASecondSending(t *testing.T) {
	for _, tt := range []struct {
		answer  error
		another bool
	}{
		{refusal("MOVED 1 127.0.0.1:1"), false},
		{refusal("ASK 1 127.0.0.1:1"), false},
		{io.EOF, true},
		{nil, true}, // the client does not say why
	} {
		tokens := newTokens(newNames(Options{}, true), "a")
		request := redis.NewCmd(t.Context())
		tokens.sentBy(request)
		first, _ := tokens.MarshalBinary()
		request.SetErr(tt.answer)
		second, _ := tokens.MarshalBinary()
		if another, doubt := string(first) != string(second), tokens.answered(); another != tt.another || doubt != tt.another {
			t.Errorf("after %v: another token %v, in doubt %v; want %v", tt.answer, another, doubt, tt.another)
		}
	}
}

// A release that names a waiter of its process as the next has given the lock to another. When the waiter gives up
// after that, nothing of it is under way, and nothing is buried.
func TestAPromiseEndsWithItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{})
		held := mustAcquire(t, managers[0], "a")
		got := acquiring(t, managers[1], "a")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- second(managers[0].Acquire(ctx, "a")) }()
		synctest.Wait()
		mustRelease(t, held)
		other := redistest.Receive(t, got, "the other process to get the lock")
		time.Sleep(DefaultPoll)
		cancel()
		redistest.ErrorIs(t, "the error is", redistest.Receive(t, gone, "the waiter to give up"), ErrHeld)
		synctest.Wait()
		redistest.Equal(t, "tokens are in the queue:", clients[0].ZCard(t.Context(), "Lock:a:Queue").Val(), 0)
		mustRelease(t, other)
		checkClean(t, clients[0])
	})
}
