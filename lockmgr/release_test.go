package lockmgr

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// A release needs no memory: at maxmemory the lock goes to the next waiter, of this process or
// of another, or to nobody.
func TestReleaseAtMaxmemory(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	plain := server.Client()
	here, elsewhere := newManager(t, server.Client(), Options{TTL: time.Minute}), newManager(t, server.Client(), Options{TTL: time.Minute})
	for _, waiters := range [][]*Manager{{}, {here}, {elsewhere}, {elsewhere, here}, {here, elsewhere}} {
		lock := mustAcquire(t, here, "a")
		var got []<-chan *Lock
		for i, m := range waiters {
			got = append(got, acquiring(t, m, "a"))
			awaitQueue(t, plain, "a", int64(i+1))
		}
		plain.ConfigSet(t.Context(), "maxmemory", "1")
		err := second(here.TryAcquire(t.Context(), "b"))
		redistest.FatalIf(t, err == nil || !strings.Contains(err.Error(), "OOM"), "Redis takes writes: %v", err)
		redistest.OK(t, lock.Release(t.Context()))
		redistest.ErrorIf(t, len(waiters) == 0 && plain.Exists(t.Context(), "Lock:a").Val() != 0, "the lock stays")
		for _, next := range got {
			mustRelease(t, redistest.Receive(t, next, "a waiter to get the lock"))
		}
		plain.ConfigSet(t.Context(), "maxmemory", "0")
		checkClean(t, plain)
	}
}

// A release is carried out and its reply lost, and the next one is refused. That a third does not find the lock is no theft.
func TestAReleaseInDoubtThatIsRefused(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		loadScripts(t, clients[0])
		lock, answers := mustAcquire(t, managers[0], "a"), []error{io.EOF, refusal("LOADING"), nil}
		sent := 0
		afterScript(clients[0], releaseScript, func(context.Context) error {
			sent++
			return answers[sent-1]
		})
		for _, want := range answers {
			err := lock.Release(t.Context())
			redistest.ErrorIf(t, !errors.Is(err, want), "%v, want %v", err, want)
		}
	})
}

// Release does not wait for an extension that hangs, and ends it.
func TestReleaseEndsAHangingExtension(t *testing.T) {
	virtually(t, 1, Options{}, func(t *testing.T, managers []*Manager, clients []*redis.Client) {
		ended := make(chan error, 1)
		beforeScript(clients[0], extendScript, func(ctx context.Context) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		})
		lock := mustAcquire(t, managers[0], "a")
		lock.KeepAlive()
		time.Sleep(1500 * time.Millisecond) // the first extension hangs
		start := time.Now()
		mustRelease(t, lock)
		redistest.Receive(t, ended, "fn to end")
		redistest.Equal(t, "the release took", time.Since(start), 0)
	})
}

// A release was carried out and its reply lost; then Redis forgets its scripts. The client sends
// the release again, by its hash and as a whole, and finds no lock: that is no theft.
func TestAReleaseSentAgainToARedisWithoutScripts(t *testing.T) {
	server := redistest.Start(t)
	plain := server.Client()
	loadScripts(t, plain)
	proxy := redistest.StartProxy(t, server.Addr())
	m := newManager(t, proxy.Client(), Options{TTL: time.Minute})
	lock := mustAcquire(t, m, "a")
	lost := redistest.Once("EVALSHA", redistest.DropReply)
	proxy.OnRequest(lost)
	proxy.OnReply(func(args []string) {
		if carries("a", releaseScript)(args) {
			plain.ScriptFlush(context.Background())
		}
	})
	redistest.OK(t, lock.Release(t.Context()))
	checkClean(t, plain)
}
