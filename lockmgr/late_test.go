package lockmgr

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redistest"
)

// carries chooses requests that run one of those scripts about a lock.
func carries(name string, scripts ...*redis.Script) func(args []string) bool {
	return func(args []string) bool {
		return len(args) > 3 && args[3] == "Lock:"+name &&
			slices.ContainsFunc(scripts, func(s *redis.Script) bool { return s.Hash() == args[1] })
	}
}

// loadScripts has Redis know all scripts, so that no request fails for that reason.
func loadScripts(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	for _, s := range []*redis.Script{acquireScript, allScript, tryScript, extendScript, releaseScript, releaseAllScript, passScript, abandonScript, inheritScript} {
		redistest.OK(t, s.Load(t.Context(), client).Err())
	}
}

// impatient returns a Manager whose client waits for a reply for 100 ms, behind a proxy. If pipelined, its requests
// share round trips, because one is under way until the test ends.
func impatient(t *testing.T, server *redistest.Server, pipelined bool, retries int) (*Manager, *redistest.Proxy) {
	t.Helper()
	proxy := redistest.StartProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), ContextTimeoutEnabled: true, ReadTimeout: 100 * time.Millisecond, MaxRetries: retries,
	})
	t.Cleanup(func() { _ = client.Close() })
	redistest.OK(t, client.Ping(t.Context()).Err()) // it is connected before a limit of the test begins
	m := newManager(t, client, Options{TTL: time.Minute, Pipelined: pipelined})
	if pipelined {
		m.sender.underway.Add(1)
		t.Cleanup(func() { m.sender.underway.Add(-1) })
	}
	return m, proxy
}

// The first copy of a request for the lock is under way for so long that the client sends it
// again. It arrives when the lock was released, and others have written: nobody has the lock
// then, and a late copy of a write under the old hold is refused.
func TestALateRequestRevivesNothing(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	for name, acquire := range ways {
		for _, pipelined := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", pipelined ", pipelined), func(t *testing.T) {
				plain.FlushDB(t.Context())
				m, proxy := impatient(t, server, pipelined, 1)
				other := newManager(t, plain, Options{TTL: time.Minute})
				late := proxy.HoldBack(carries("a", acquireScript, tryScript, allScript))
				write := func(m *Manager, lock *Lock) bool {
					done, err := m.Run(t.Context(), guardedWrite, "a", []string{"log"}, lock.Token(), lock.Fence()).Bool()
					redistest.OK(t, err)
					return done
				}
				old, err := acquire(t.Context(), m)
				redistest.FatalIf(t, err != nil || old == nil, "%v", err)
				redistest.FatalIf(t, !write(m, old), "the holder could not write")
				mustRelease(t, old)
				newer := mustAcquire(t, other, "a")
				redistest.FatalIf(t, !write(other, newer), "the next holder could not write")
				mustRelease(t, newer)

				late.Deliver()
				redistest.ErrorIf(t, write(other, old), "a late write of the old hold was carried out")
				redistest.Equal(t, "the lock holds", plain.Get(t.Context(), "Lock:a").Val(), "")
				next, err := other.TryAcquire(t.Context(), "a")
				redistest.FatalIf(t, err != nil, "the next one: %v", err)
				mustRelease(t, next)
				plain.Del(t.Context(), "log")
				checkClean(t, plain)
			})
		}
	}
}

// A request arrives after its caller has given up and left: it gets neither the lock nor a
// position in the queue, whether the lock is free, held or waited for.
func TestALateRequestOfWhoGaveUp(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	for _, state := range []string{"free", "held", "waited for"} {
		for _, pipelined := range []bool{false, true} {
			t.Run(fmt.Sprint(state, ", pipelined ", pipelined), func(t *testing.T) {
				plain.FlushDB(t.Context())
				m, proxy := impatient(t, server, pipelined, -1)
				other := newManager(t, plain, Options{TTL: time.Minute})
				late := proxy.HoldBack(carries("a", acquireScript))
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				redistest.ErrorIs(t, "acquire", second(m.Acquire(ctx, "a")), context.DeadlineExceeded)
				m.Close() // it has left
				var holder *Lock
				waiting := make(chan *Lock, 1)
				if state != "free" {
					holder = mustAcquire(t, other, "a")
				}
				if state == "waited for" {
					go func() { waiting <- mustAcquire(t, newManager(t, plain, Options{TTL: time.Minute}), "a") }()
					awaitQueue(t, plain, "a", 1) // beside the one that is buried
				}
				late.Deliver()
				redistest.Equal(t, "wait:", queued(t, plain), int64(len(state)/len("waited for")))
				if holder != nil {
					mustRelease(t, holder)
				}
				if state == "waited for" {
					mustRelease(t, redistest.Receive(t, waiting, "the waiter to get the lock"))
				}
				checkClean(t, plain)
			})
		}
	}
}

// A hold goes on under another token, since its caller had no answer to the first request: who
// waits for its end goes on waiting.
func TestWaitingForAHoldWithAnotherToken(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	proxy := redistest.StartProxy(t, server.Addr())
	m := newManager(t, proxy.Client(), Options{TTL: time.Minute})
	other := newManager(t, plain, Options{})
	settling, found := make(chan struct{}), make(chan struct{})
	proxy.OnRequest(func(args []string) redistest.Action {
		switch {
		case carries("a", acquireScript)(args) && len(settling) == 0:
			select {
			case <-settling:
			default:
				close(settling)
				return redistest.DropReply
			}
		case carries("a", inheritScript)(args):
			<-found
		}
		return redistest.Pass
	})
	got := acquiring(t, m, "a")
	redistest.Receive(t, settling, "the first request")
	outcome := make(chan Outcome, 1)
	polls := make(chan struct{}, 100) // by AcquireOrWait
	plain.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "get" {
			polls <- struct{}{}
		}
		return nil
	}})
	redistest.Until(t, "the first request is executed", func() bool { return plain.Exists(t.Context(), "Lock:a").Val() > 0 })
	go func() {
		o, _, err := other.AcquireOrWait(context.Background(), "a", WaitOptions{Poll: 5 * time.Millisecond})
		redistest.ErrorIf(t, err != nil, "%v", err)
		outcome <- o
	}()
	redistest.Receive(t, polls, "a look at the holder")
	close(found)
	lock := redistest.Receive(t, got, "the lock")
	for range 10 {
		redistest.Receive(t, polls, "a look at the holder")
	}
	select {
	case o := <-outcome:
		t.Errorf("during the hold: %v", o)
	default:
	}
	mustRelease(t, lock)
	redistest.Equal(t, "", redistest.Receive(t, outcome, "the end of the hold"), Ended)
}

// A release that names a waiter of its process is under way, and that waiter gives up: when the
// release arrives, the waiter gets neither the lock nor a position.
func TestALateReleaseGivesNothingToWhoGaveUp(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	for _, others := range []int64{0, 1} {
		plain.FlushDB(t.Context())
		proxy := redistest.StartProxy(t, server.Addr())
		m := newManager(t, proxy.Client(), Options{TTL: time.Minute, Poll: 10 * time.Second, Claim: 20 * time.Second})
		lock := mustAcquire(t, m, "a")
		ctx, cancel := context.WithCancel(t.Context())
		gone := giving(ctx, m)
		awaitQueue(t, plain, "a", 1)
		got := make(chan *Lock, 1)
		if others > 0 {
			go func() { got <- mustAcquire(t, newManager(t, plain, Options{TTL: time.Minute}), "a") }()
			awaitQueue(t, plain, "a", 2)
		}
		held, arrive := make(chan struct{}, 100), make(chan struct{})
		proxy.OnRequest(func(args []string) redistest.Action {
			if carries("a", passScript)(args) { // both sendings
				held <- struct{}{}
				<-arrive
			}
			return redistest.Pass
		})
		short, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = lock.Release(short) // goes on
		end()
		redistest.Receive(t, held, "the release")
		cancel()
		redistest.Receive(t, gone, "the waiter to give up")
		redistest.Until(t, "the waiter has left the queue", func() bool { return queued(t, plain) <= others })
		close(arrive)
		if others > 0 {
			mustRelease(t, redistest.Receive(t, got, "the other waiter"))
		}
		m.Close()
		redistest.Until(t, "the lock is free", func() bool { return plain.Exists(t.Context(), "Lock:a").Val() == 0 })
		checkClean(t, plain)
	}
}

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
	virtually(t, 2, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		held := mustAcquire(t, managers[0], "a")
		got := acquiring(t, managers[1], "a")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone := giving(ctx, managers[0])
		synctest.Wait()
		mustRelease(t, held)
		other := redistest.Receive(t, got, "the other process to get the lock")
		time.Sleep(DefaultPoll)
		cancel()
		redistest.ErrorIs(t, "the error is", redistest.Receive(t, gone, "the waiter to give up"), ErrHeld)
		synctest.Wait()
		redistest.Equal(t, "tokens are in the queue:", clients[0].ZCard(t.Context(), "Lock:a:Queue").Val(), 0)
		mustRelease(t, other)
	})
}

// The answer to a request that shares a round trip comes as its context ends: it is the answer,
// and the caller knows what became of the lock.
func TestAnAnswerThatComesAsTheContextEnds(t *testing.T) {
	_, client := redistest.Mini(t)
	m := newManager(t, client, Options{Pipelined: true})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p := submit(t.Context(), m.sender.pipe, []any{"echo", newTokens(m.names, "a")})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for p.wait(ended) != nil && t.Context().Err() == nil {
			runtime.Gosched()
		}
	}()
	redistest.Receive(t, answered, "the pipeline to answer")
	got, err := p.cmd.Text()
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
				cmd := m.sender.process(t.Context(), "a", func() []any { return []any{"echo", "hi"} })
				redistest.ErrorIf(t, cmd.Val() != "hi", "%v, %v", cmd.Val(), cmd.Err())
			})
		}
		synctest.Wait()
		redistest.Equal(t, "by themselves", alone.Load(), maxDirect)
		close(held)
		all.Wait()
	})
}
