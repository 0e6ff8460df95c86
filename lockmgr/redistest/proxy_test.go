package redistest

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// once opens a client of the proxy that sends every command once and waits at
// most timeout for a reply.
func once(p *Proxy, timeout time.Duration) *redis.Client {
	return newClient(p.tb, &redis.Options{Addr: p.Addr(), MaxRetries: -1, ReadTimeout: timeout})
}

func TestProxyPasses(t *testing.T) {
	s := Start(t)
	for _, protocol := range []int{2, 3} {
		p := StartProxy(t, s.Addr())
		c := newClient(t, &redis.Options{Addr: p.Addr(), Protocol: protocol})
		pipe := c.Pipeline()
		var replies []*redis.IntCmd
		for range 1000 {
			replies = append(replies, pipe.Incr(t.Context(), "n"))
		}
		all := pipe.HGetAll(t.Context(), "none")
		OK(t, Err(pipe.Exec(t.Context())))
		for i, reply := range replies {
			FatalIf(t, reply.Val() != int64(i+1), "reply %d says %d", i, reply.Val())
		}
		FatalIf(t, len(all.Val()) != 0, "a hash that is not there: %v", all.Val())
		c.Del(t.Context(), "n")
	}
}

func TestProxyDropsRequest(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	p.OnRequest(Once("set", DropRequest))
	err := once(p, time.Second).Set(t.Context(), "k", "v", 0).Err()
	FatalIf(t, err == nil, "a request that was dropped gave no error")
	n := s.Client().Exists(t.Context(), "k").Val()
	FatalIf(t, n != 0, "a request that was dropped was executed")

	p.OnRequest(Once("SET", DropRequest))
	err = p.Client().Set(t.Context(), "k", "v", 0).Err()
	FatalIf(t, err != nil, "the client did not try again: %v", err)
	v := s.Client().Get(t.Context(), "k").Val()
	FatalIf(t, v != "v", "the server has %q", v)
}

func TestProxyDropsReply(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	p.OnRequest(Once("INCR", DropReply))
	err := once(p, time.Second).Incr(t.Context(), "n").Err()
	FatalIf(t, err == nil, "a reply that was dropped gave no error")
	v := s.Client().Get(t.Context(), "n").Val()
	FatalIf(t, v != "1", "n is %q: the request was not executed", v)

	// The client sends it again: executed twice, answered once.
	p.OnRequest(Once("INCR", DropReply))
	n, err := p.Client().Incr(t.Context(), "n").Result()
	FatalIf(t, n != 3 || err != nil, "n is %d, %v; want 3", n, err)
}

func TestProxyDropsReplyOfScript(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	take := redis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1], 'NX') and 1 or 0`)
	OK(t, take.Load(t.Context(), s.Client()).Err())
	var seen []string // by several connections of one client, one after another
	decide := Once("EVALSHA", DropReply)
	p.OnRequest(func(args []string) Action {
		if args[0] == "EVALSHA" {
			seen = append(seen, args[1])
		}
		return decide(args)
	})
	got, err := take.Run(t.Context(), p.Client(), []string{"lock"}, "me").Int()
	FatalIf(t, err != nil || got != 0, "got %d, %v; the second run has to find what the first one set", got, err)
	want := []string{take.Hash(), take.Hash()}
	FatalIf(t, !slices.Equal(seen, want), "scripts %q, want %q", seen, want)
}

func TestProxyHoldsReply(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	executed := make(chan string, 1)
	p.OnRequest(Once("SET", HoldReply))
	p.OnReply(func(args []string) {
		if args[0] == "SET" {
			executed <- args[1]
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	c := once(p, 50*time.Millisecond)
	go func() { failed <- c.Set(ctx, "k", "v", 0).Err() }()
	key := Receive(t, executed, "the server to execute a command")
	FatalIf(t, key != "k", "executed %q", key)
	v := s.Client().Get(t.Context(), "k").Val()
	FatalIf(t, v != "v", "the server has %q", v)
	var timeout net.Error
	err := Receive(t, failed, "a command to fail")
	FatalIf(t, !errors.As(err, &timeout) || !timeout.Timeout(), "the client got %v, want a timeout", err)
	if v, err := c.Get(t.Context(), "k").Result(); v != "v" || err != nil {
		t.Fatalf("a new connection got %q, %v", v, err)
	}
}

func TestProxyInsidePipeline(t *testing.T) {
	for name, test := range map[string]struct {
		action   Action
		executed []string
	}{
		"DropRequest": {DropRequest, []string{"before"}},
		"DropReply":   {DropReply, []string{"before", "at"}},
		"HoldReply":   {HoldReply, []string{"before", "at", "after"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Start(t)
			p := StartProxy(t, s.Addr())
			p.OnRequest(Once("INCR", test.action))
			executed := make(chan string, 3)
			p.OnReply(func(args []string) {
				if args[0] == "SET" || args[0] == "INCR" {
					executed <- args[1]
				}
			})
			pipe := once(p, 50*time.Millisecond).Pipeline()
			before := pipe.Set(t.Context(), "before", 1, 0)
			pipe.Incr(t.Context(), "at")
			pipe.Set(t.Context(), "after", 1, 0)
			_, err := pipe.Exec(t.Context())
			FatalIf(t, err == nil, "the pipeline gave no error")
			if before.Val() != "OK" { // it carries the pipeline's error all the same
				t.Fatalf("the reply before was %q", before.Val())
			}
			for _, want := range test.executed {
				key := Receive(t, executed, "the server to execute a command")
				FatalIf(t, key != want, "executed %q, want %q", key, want)
			}
			n := s.Client().DBSize(t.Context()).Val()
			FatalIf(t, n != int64(len(test.executed)), "%d commands executed, want %q", n, test.executed)
		})
	}
}

func TestProxyPubSub(t *testing.T) {
	s := Start(t)
	for _, protocol := range []int{2, 3} {
		p := StartProxy(t, s.Addr())
		c := newClient(t, &redis.Options{Addr: p.Addr(), Protocol: protocol})
		seen := make(chan string, 100) // of the connection that subscribes
		p.OnRequest(func(args []string) Action {
			if args[0] == "SUBSCRIBE" || args[0] == "PING" {
				seen <- args[0]
			}
			return Pass
		})
		sub := c.Subscribe(t.Context(), "a", "b")
		defer sub.Close()
		for range 2 {
			OK(t, Err(sub.Receive(t.Context())))
		}
		s.Client().Publish(t.Context(), "b", "hello")
		m, err := sub.ReceiveMessage(t.Context())
		FatalIf(t, err != nil || m.Payload != "hello", "RESP%d: %v, %v", protocol, m, err)
		OK(t, sub.Ping(t.Context()))
		if m, err := sub.Receive(t.Context()); err != nil {
			t.Fatalf("RESP%d: %v, %v", protocol, m, err)
		}
		if command := Receive(t, seen, "a request"); command != "SUBSCRIBE" || len(seen) > 0 {
			t.Fatalf("RESP%d: saw a %s, and %d requests after it", protocol, command, len(seen))
		}
	}
}

func TestProxyCut(t *testing.T) {
	p := StartProxy(t, Start(t).Addr())
	c := once(p, time.Second)
	conn := c.Conn()
	defer conn.Close()
	OK(t, conn.Ping(t.Context()).Err())
	p.Cut()
	err := conn.Ping(t.Context()).Err()
	FatalIf(t, err == nil, "the connection was not cut")
	err = c.Ping(t.Context()).Err()
	FatalIf(t, err != nil, "a new connection: %v", err)
}

func TestProxyPause(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := once(p, 10*time.Second)
	OK(t, c.Ping(t.Context()).Err())
	arrived := make(chan struct{}, 1)
	p.OnRequest(func([]string) Action { arrived <- struct{}{}; return Pass })
	p.Pause()
	p.Pause() // no more than one
	done := make(chan error, 1)
	go func() { done <- c.Set(t.Context(), "k", "v", 0).Err() }()
	Receive(t, arrived, "a request")
	n := s.Client().Exists(t.Context(), "k").Val()
	FatalIf(t, n != 0, "a request went through a paused proxy")
	select {
	case err := <-done:
		t.Fatalf("a reply came out of a paused proxy: %v", err)
	default:
	}
	p.Resume()
	p.Resume()
	OK(t, Receive(t, done, "a command"))
}

func TestProxyWithoutServer(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	s.Kill()
	err := once(p, time.Second).Ping(t.Context()).Err()
	FatalIf(t, err == nil, "a dead server answered")
	s.Restart()
	OK(t, once(p, time.Second).Ping(t.Context()).Err())
}
