package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// Redis is away when the first subscription is made. Wait returns the error, and the
// subscription becomes active by itself and says that messages may have been missed.
func TestTheFirstAttemptsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, client := startFake(t)
		f.set(true, nil)
		lost := 0
		h := New(client, func(error) { lost++ })
		defer h.Close()
		e := subscribe(h, "c")
		start := time.Now()
		for range 3 {
			redistest.ErrorIs(t, "waited for a server that is down", e.outcome(t), errDown)
		}
		took := time.Since(start)
		redistest.ErrorIf(t, took > 3*redial, "heard of it after %v", took)
		time.Sleep(time.Minute)
		synctest.Wait()
		dials, _ := f.counts()
		redistest.ErrorIf(t, dials > int(time.Minute/redial)+10, "%d dials in a minute", dials)
		redistest.Equal(t, "calls of lost:", lost, dials)
		f.set(false, nil)
		redistest.OK(t, e.outcome(t))
		synctest.Wait()
		redistest.ErrorIf(t, len(e.breaks) != 1, "%d calls of Interrupted", len(e.breaks))
		second := subscribe(h, "d")
		redistest.OK(t, second.outcome(t))
		synctest.Wait()
		redistest.ErrorIf(t, len(second.breaks) != 0 || len(e.breaks) != 1, "Interrupted without a break")
		if dials, _ := f.counts(); dials > int(time.Minute/redial)+10 {
			t.Errorf("%d dials", dials)
		}
	})
}

// A channel that the user may not subscribe to does not disturb the others, and costs
// Redis little.
func TestARefusedChannel(t *testing.T) {
	refuse := func(args []string) (string, bool) {
		return "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
			args[0] == "subscribe" && slices.Contains(args, "secret")
	}
	synctest.Test(t, func(t *testing.T) {
		f, client := startFake(t)
		f.set(false, refuse)
		var lost []error
		h := New(client, func(err error) { lost = append(lost, err) })
		defer h.Close()
		before := listen(t, h, "before")
		secret := subscribe(h, "secret")
		var others []*ear
		for i := range 50 {
			others = append(others, subscribe(h, fmt.Sprint("c", i)))
		}
		for range 3 {
			err := secret.outcome(t)
			redistest.ErrorIf(t, !redis.IsPermissionError(err) || !strings.Contains(err.Error(), "secret"), "refused: %v", err)
		}
		for _, e := range others {
			redistest.OK(t, e.outcome(t))
		}
		_, requests := f.counts()
		time.Sleep(time.Minute)
		synctest.Wait()
		dials, now := f.counts()
		n := now - requests // attempts, with a ping each, and pings when it is silent
		redistest.ErrorIf(t, n > 80, "%d requests in a minute", n)
		redistest.ErrorIf(t, len(lost) != 1 || dials != 1, "lost was called with %v, %d dials", lost, dials)
		f.set(false, nil)
		redistest.OK(t, secret.outcome(t))
		synctest.Wait()
		redistest.ErrorIf(t, len(secret.breaks) != 1, "%d calls of Interrupted", len(secret.breaks))
		for _, e := range append(others, before) {
			redistest.ErrorIf(t, len(e.breaks) > 0, "%s was interrupted", e.channel)
		}
		f.set(false, refuse)
		again := subscribe(h, "secret") // beside one that is active
		if err := again.outcome(t); !redis.IsPermissionError(err) || secret.outcome(t) != nil {
			t.Errorf("a second one was refused: %v", err)
		}
		again.Close()
		redistest.ErrorIs(t, "closed while it is refused", again.outcome(t), ErrClosed)
	})
}

// The server accepts connections and goes silent, at once or after a while.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, mute := range map[string]func([]string) (string, bool){
		"never": func([]string) (string, bool) { return "", true },
		"not a subscribe": func(args []string) (string, bool) {
			return "", args[0] == "subscribe" || args[0] == "ping"
		},
		"not a ping":      func(args []string) (string, bool) { return "", args[0] == "ping" },
		"it may not ping": func(args []string) (string, bool) { return "-NOPERM no ping\r\n", args[0] == "ping" },
		"it is loading":   func(args []string) (string, bool) { return "-LOADING\r\n", args[0] == "ping" },
		"too many":        func([]string) (string, bool) { return "-ERR max number of clients reached\r\n", true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := startFake(t)
				f.set(false, mute)
				h := New(client, nil)
				defer h.Close()
				e := subscribe(h, "c")
				redistest.ErrorIf(t, e.outcome(t) == nil, "it is active on a server that does not answer")
				time.Sleep(time.Minute)
				f.mu.Lock()
				redistest.ErrorIf(t, f.dials > 2*int(time.Minute/redial), "%d dials in a minute", f.dials)
				f.answer = nil
				f.mu.Unlock()
				e.broken(t)
				redistest.OK(t, e.outcome(t))
			})
		})
	}
}

// Wait returns the cause of its context, and ErrClosed.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, client := startFake(t)
		f.set(false, func([]string) (string, bool) { return "", true })
		h := New(client, nil)
		defer h.Close()
		reason := errors.New("the player closed the window")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, reason)
		defer cancel()
		closed, open := subscribe(h, "c"), subscribe(h, "d")
		redistest.Equal(t, "cancelled:", open.Wait(ctx), reason)
		time.AfterFunc(time.Millisecond, closed.Close)
		redistest.ErrorIs(t, "closed", closed.outcome(t), ErrClosed)
		time.AfterFunc(time.Millisecond, h.Close)
		redistest.ErrorIs(t, "the hub was closed", open.outcome(t), ErrClosed)
	})
}

// The same with a server: a user with rights to some channels, and none left for
// one more client.
func TestRedisRefuses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client()
	do := func(args ...any) {
		t.Helper()
		redistest.OK(t, admin.Do(t.Context(), args...).Err())
	}
	do("ACL", "SETUSER", "half", "on", "nopass", "+@all", "resetchannels", "&ours*")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "half", Password: "-"})
	t.Cleanup(func() { _ = client.Close() })
	h := newHub(t, client)
	first, theirs, second := subscribe(h, "ours 1"), subscribe(h, "theirs"), subscribe(h, "ours 2")
	redistest.ErrorIf(t, !redis.IsPermissionError(theirs.outcome(t)), "it may subscribe without the right")
	for _, e := range []*ear{first, second} {
		redistest.OK(t, e.outcome(t))
		do("PUBLISH", e.channel, "m")
		e.expect(t, "m")
	}
	do("ACL", "SETUSER", "half", "&theirs")
	theirs.broken(t)
	do("PUBLISH", "theirs", "m")
	theirs.expect(t, "m")
	redistest.ErrorIf(t, len(first.breaks)+len(second.breaks) > 0, "the others were interrupted")
	h.Close()

	do("CONFIG", "SET", "maxclients", 1)
	h = newHub(t, server.Client())
	late := subscribe(h, "c")
	redistest.ErrorIf(t, late.outcome(t) == nil, "one client too many")
	do("CONFIG", "SET", "maxclients", 100)
	late.broken(t)
	do("PUBLISH", "c", "m")
	late.expect(t, "m")
}

// The connection is lost while a handler runs, and the writer notices. The subscription is
// still told of the break.
func TestTheWriterNoticesABreak(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client()
	h := newHub(t, server.Client())
	entered, leave := make(chan struct{}), make(chan struct{})
	breaks := make(chan struct{}, 10)
	busy := &ear{Subscription: h.Subscribe("busy", Handler{
		Message:     func(string) { close(entered); <-leave },
		Interrupted: func() { breaks <- struct{}{} },
	}), breaks: breaks}
	redistest.OK(t, busy.outcome(t))
	admin.Publish(t.Context(), "busy", "m")
	redistest.Receive(t, entered, "the message")
	goOn := sync.OnceFunc(func() { close(leave) })
	defer goOn() // the Hub's Close waits for the handler
	connections := func() string {
		return admin.InfoMap(t.Context(), "stats").Item("Stats", "total_connections_received")
	}
	before := connections()
	admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	redistest.Until(t, "the server has noticed", func() bool {
		return admin.PubSubNumSub(t.Context(), "busy").Val()["busy"] == 0
	})
	// Writes fail from the second on; go-redis then reconnects by itself.
	redistest.Until(t, "the client has reconnected", func() bool {
		subscribe(h, uuid.NewString())
		return connections() != before
	})
	goOn()
	busy.broken(t)
}
