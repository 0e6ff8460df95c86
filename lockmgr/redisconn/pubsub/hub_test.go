package pubsub

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}

// ear is a subscriber that keeps its messages.
type ear struct {
	*Subscription
	heard  chan string
	breaks chan struct{}
}

func subscribe(h *Hub, channel string) *ear {
	e := &ear{heard: make(chan string, 1000), breaks: make(chan struct{}, 10)}
	e.Subscription = h.Subscribe(channel, Handler{
		Message:     func(payload string) { e.heard <- payload },
		Interrupted: func() { e.breaks <- struct{}{} },
	})
	return e
}

// listen subscribes, and returns when the subscription is active.
func listen(t *testing.T, h *Hub, channel string) *ear {
	t.Helper()
	e := subscribe(h, channel)
	err := e.outcome(t)
	redistest.FatalIf(t, err != nil, "subscribe to %q: %v", channel, err)
	return e
}

// outcome returns what Wait does.
func (e *ear) outcome(t *testing.T) error {
	t.Helper()
	got := make(chan error, 1)
	go func() { got <- e.Wait(t.Context()) }()
	return redistest.Receive(t, got, e.channel+" to become active, or to fail")
}

func newHub(t *testing.T, client redis.UniversalClient) *Hub {
	h := New(client, nil)
	t.Cleanup(h.Close)
	return h
}

func (e *ear) expect(t *testing.T, want string) {
	t.Helper()
	redistest.Equal(t, "heard", redistest.Receive(t, e.heard, want), want)
}

// broken expects that Interrupted is called.
func (e *ear) broken(t *testing.T) {
	t.Helper()
	redistest.Receive(t, e.breaks, e.channel+" to be active again")
}

func TestManySubscribersOfManyChannels(t *testing.T) {
	_, mini := redistest.Mini(t)
	for _, client := range []*redis.Client{mini, redistest.Start(t).Client()} {
		h := newHub(t, client)
		var ears []*ear
		for i := range 100 {
			ears = append(ears, listen(t, h, fmt.Sprint("channel ", i/2)))
		}
		for i := range 50 {
			client.Publish(t.Context(), fmt.Sprint("channel ", i), i)
		}
		for i, e := range ears {
			e.expect(t, fmt.Sprint(i/2))
		}
		ears[0].Close()
		ears[0].Close()
		client.Publish(t.Context(), "channel 0", "again")
		ears[1].expect(t, "again")
		redistest.ErrorIf(t, len(ears[0].heard) > 0, "heard something after Close")
	}
}

// The last subscriber goes and a new one comes: it hears all that is published once it is
// active, and nothing from before.
func TestSubscribeAgain(t *testing.T) {
	// A real server only: miniredis does not keep messages and answers to pings in order.
	client := redistest.Start(t).Client()
	h := newHub(t, client)
	for i := range 200 {
		e := listen(t, h, "c")
		client.Publish(t.Context(), "c", i)
		e.expect(t, fmt.Sprint(i))
		e.Close()
		client.Publish(t.Context(), "c", "between")
	}
}

func TestInterruptedAfterABreak(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	h := newHub(t, client)
	a, b := listen(t, h, "a"), listen(t, h, "b")
	for range 3 {
		client.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
		a.broken(t)
		b.broken(t)
		client.Publish(t.Context(), "a", "to a")
		a.expect(t, "to a")
	}
	server.Restart()
	a.broken(t)
	client.Publish(t.Context(), "a", "after the restart")
	a.expect(t, "after the restart")
}

// A connection that has gone silent is given up.
func TestASilentConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	h := New(proxy.Client(), func(error) { proxy.Resume() }) // its next attempt succeeds
	t.Cleanup(h.Close)
	e := listen(t, h, "c")
	proxy.Pause()
	e.broken(t)
	server.Client().Publish(t.Context(), "c", "m")
	e.expect(t, "m")
}

func TestWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	server.Kill()
	lost := make(chan error, 1000)
	h := New(client, func(err error) { lost <- err })
	defer h.Close()
	e := subscribe(h, "c")
	err := e.outcome(t)
	redistest.ErrorIf(t, err == nil || <-lost == nil, "no error of a server that is down: %v", err)
	server.Restart()
	e.broken(t)
	client.Publish(t.Context(), "c", "m")
	e.expect(t, "m")
}

func TestClose(t *testing.T) {
	_, client := redistest.Mini(t)
	h := New(client, nil)
	e := listen(t, h, "c")
	h.Close()
	h.Close()
	e.Close()
	s := h.Subscribe("c", Handler{})
	redistest.ErrorIs(t, "subscribed to a closed hub", s.Wait(t.Context()), ErrClosed)
	s.Close()
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := cluster.Client()
	publish := func(channel, payload string) {
		t.Helper()
		redistest.OK(t, client.SPublish(t.Context(), channel, payload).Err())
	}
	undisturbed := func(t *testing.T, e *ear) {
		t.Helper()
		publish(e.channel, "here")
		e.expect(t, "here")
		redistest.Equal(t, "interruptions of the other channel:", len(e.breaks), 0)
	}
	// neighbour returns a channel of another slot of the same master.
	neighbour := func(channel string) string {
		for i := 0; ; i++ {
			if other := fmt.Sprintf("{%d}", i); cluster.Owner(other) == cluster.Owner(channel) {
				return other
			}
		}
	}

	t.Run("a channel moves with its slot, and others notice nothing", func(t *testing.T) {
		h := newHub(t, cluster.Client())
		moving, staying := listen(t, h, "{moving}"), listen(t, h, neighbour("{moving}"))
		for range 3 {
			cluster.Move("{moving}")
			moving.broken(t)
			publish("{moving}", "there")
			moving.expect(t, "there")
			undisturbed(t, staying)
		}
	})

	t.Run("a slot has moved before", func(t *testing.T) {
		h := newHub(t, cluster.Client())
		staying := listen(t, h, neighbour("{moved}")) // now the client knows who has what
		cluster.Move("{moved}")
		moved := listen(t, h, "{moved}")
		publish("{moved}", "there")
		moved.expect(t, "there")
		undisturbed(t, staying)
	})

	t.Run("the last subscriber goes and a new one comes", func(t *testing.T) {
		h := newHub(t, cluster.Client())
		staying := listen(t, h, neighbour("{again}"))
		for i := range 200 {
			e := listen(t, h, "{again}")
			publish("{again}", fmt.Sprint(i))
			e.expect(t, fmt.Sprint(i))
			e.Close()
			publish("{again}", "between")
		}
		undisturbed(t, staying)
	})

	t.Run("nobody has the slot for a while", func(t *testing.T) {
		h := newHub(t, cluster.Client())
		slot, err := client.ClusterKeySlot(t.Context(), "{orphan}").Result()
		redistest.OK(t, err)
		owner, err := client.MasterForKey(t.Context(), "{orphan}")
		redistest.OK(t, err)
		redistest.OK(t, client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			return node.Do(ctx, "CLUSTER", "DELSLOTS", slot).Err()
		}))
		orphan := subscribe(h, "{orphan}")
		err = orphan.outcome(t)
		redistest.ErrorIf(t, !redis.IsClusterDownError(err), "subscribed to a slot that nobody has: %v", err)
		redistest.OK(t, owner.Do(t.Context(), "CLUSTER", "ADDSLOTS", slot).Err())
		orphan.broken(t)
		// the others hear of the slot later
		redistest.OK(t, owner.SPublish(t.Context(), "{orphan}", "here").Err())
		orphan.expect(t, "here")
	})
}
