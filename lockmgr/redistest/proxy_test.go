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
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, reply := range replies {
			if reply.Val() != int64(i+1) {
				t.Fatalf("reply %d says %d", i, reply.Val())
			}
		}
		if len(all.Val()) != 0 {
			t.Fatalf("a hash that is not there: %v", all.Val())
		}
		c.Del(t.Context(), "n")
	}
}

func TestProxyDropsRequest(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	p.OnRequest(Once("set", DropRequest))
	if err := once(p, time.Second).Set(t.Context(), "k", "v", 0).Err(); err == nil {
		t.Fatal("a request that was dropped gave no error")
	}
	if n := s.Client().Exists(t.Context(), "k").Val(); n != 0 {
		t.Fatal("a request that was dropped was executed")
	}

	p.OnRequest(Once("SET", DropRequest))
	if err := p.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatalf("the client did not try again: %v", err)
	}
	if v := s.Client().Get(t.Context(), "k").Val(); v != "v" {
		t.Fatalf("the server has %q", v)
	}
}

func TestProxyDropsReply(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	p.OnRequest(Once("INCR", DropReply))
	if err := once(p, time.Second).Incr(t.Context(), "n").Err(); err == nil {
		t.Fatal("a reply that was dropped gave no error")
	}
	if v := s.Client().Get(t.Context(), "n").Val(); v != "1" {
		t.Fatalf("n is %q: the request was not executed", v)
	}

	// The client sends it again: executed twice, answered once.
	p.OnRequest(Once("INCR", DropReply))
	if n, err := p.Client().Incr(t.Context(), "n").Result(); n != 3 || err != nil {
		t.Fatalf("n is %d, %v; want 3", n, err)
	}
}

func TestProxyDropsReplyOfScript(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	take := redis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1], 'NX') and 1 or 0`)
	if err := take.Load(t.Context(), s.Client()).Err(); err != nil {
		t.Fatal(err)
	}
	var seen []string // by several connections of one client, one after another
	decide := Once("EVALSHA", DropReply)
	p.OnRequest(func(args []string) Action {
		if args[0] == "EVALSHA" {
			seen = append(seen, args[1])
		}
		return decide(args)
	})
	got, err := take.Run(t.Context(), p.Client(), []string{"lock"}, "me").Int()
	if err != nil || got != 0 {
		t.Fatalf("got %d, %v; the second run has to find what the first one set", got, err)
	}
	if want := []string{take.Hash(), take.Hash()}; !slices.Equal(seen, want) {
		t.Fatalf("scripts %q, want %q", seen, want)
	}
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
	if key := Receive(t, executed, "the server to execute a command"); key != "k" {
		t.Fatalf("executed %q", key)
	}
	if v := s.Client().Get(t.Context(), "k").Val(); v != "v" {
		t.Fatalf("the server has %q", v)
	}
	var timeout net.Error
	if err := Receive(t, failed, "a command to fail"); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("the client got %v, want a timeout", err)
	}
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
			if _, err := pipe.Exec(t.Context()); err == nil {
				t.Fatal("the pipeline gave no error")
			}
			if before.Val() != "OK" { // it carries the pipeline's error all the same
				t.Fatalf("the reply before was %q", before.Val())
			}
			for _, want := range test.executed {
				if key := Receive(t, executed, "the server to execute a command"); key != want {
					t.Fatalf("executed %q, want %q", key, want)
				}
			}
			if n := s.Client().DBSize(t.Context()).Val(); n != int64(len(test.executed)) {
				t.Fatalf("%d commands executed, want %q", n, test.executed)
			}
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
			if _, err := sub.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Client().Publish(t.Context(), "b", "hello")
		if m, err := sub.ReceiveMessage(t.Context()); err != nil || m.Payload != "hello" {
			t.Fatalf("RESP%d: %v, %v", protocol, m, err)
		}
		if err := sub.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
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
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if err := conn.Ping(t.Context()).Err(); err == nil {
		t.Fatal("the connection was not cut")
	}
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("a new connection: %v", err)
	}
}

func TestProxyPause(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := once(p, 10*time.Second)
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{}, 1)
	p.OnRequest(func([]string) Action { arrived <- struct{}{}; return Pass })
	p.Pause()
	p.Pause() // no more than one
	done := make(chan error, 1)
	go func() { done <- c.Set(t.Context(), "k", "v", 0).Err() }()
	Receive(t, arrived, "a request")
	if n := s.Client().Exists(t.Context(), "k").Val(); n != 0 {
		t.Fatal("a request went through a paused proxy")
	}
	select {
	case err := <-done:
		t.Fatalf("a reply came out of a paused proxy: %v", err)
	default:
	}
	p.Resume()
	p.Resume()
	if err := Receive(t, done, "a command"); err != nil {
		t.Fatal(err)
	}
}

func TestProxyWithoutServer(t *testing.T) {
	s := Start(t)
	p := StartProxy(t, s.Addr())
	s.Kill()
	if err := once(p, time.Second).Ping(t.Context()).Err(); err == nil {
		t.Fatal("a dead server answered")
	}
	s.Restart()
	if err := once(p, time.Second).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}
