package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

// launch starts n roomd processes on one Redis, with the given flags.
func launch(t *testing.T, n int, redisURL string, flags ...string) []*process {
	t.Helper()
	var nodes []*process
	for range n {
		p := prepare(t, redisURL, flags...)
		p.start()
		nodes = append(nodes, p)
	}
	return nodes
}

// prepare returns a process that ends with the test, at the latest.
func prepare(t *testing.T, redisURL string, flags ...string) *process {
	t.Helper()
	addr := roomdtest.FreeAddr(t)
	p := &process{t: t, addr: addr, args: append([]string{"--listen", addr, "--redis", redisURL}, flags...)}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		_ = p.cmd.Wait()
	})
	return p
}

// player is connected to a node.
func (p *process) player(name string, events func(*protocol.Event)) *client.Conn {
	p.t.Helper()
	c, err := client.Dial(p.t.Context(), "ws://"+p.addr+"/ws", client.Options{User: name, OnEvent: events})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

func join(t *testing.T, c *client.Conn, room string) *protocol.Reply {
	t.Helper()
	r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: room})
	redistest.OK(t, err)
	return r
}

// follower keeps who is in a room by what one player is told of it.
type follower struct {
	mu      sync.Mutex
	list    []string      // guarded by mu
	changed chan struct{} // guarded by mu: closed with the next event
}

func (f *follower) event(e *protocol.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Event == protocol.EventSnapshot {
		f.list = nil
		for _, u := range e.Users {
			f.list = append(f.list, u.User)
		}
	}
	for _, c := range e.Changes {
		switch c.Type {
		case "join":
			f.list = append(f.list, c.User)
		case "leave":
			f.list = slices.DeleteFunc(f.list, func(user string) bool { return user == c.User })
		}
	}
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// until waits until exactly those are in the room, and returns how long it took.
func (f *follower) until(t *testing.T, start time.Time, want ...string) time.Duration {
	t.Helper()
	slices.Sort(want)
	for {
		f.mu.Lock()
		got := slices.Clone(f.list)
		slices.Sort(got)
		if slices.Equal(got, want) {
			f.mu.Unlock()
			return time.Since(start)
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("the room holds %v, want %v", got, want)
		}
	}
}

// A node is killed: its members leave when they have not come back within the
// grace; one that has come back elsewhere stays.
func TestNode_KilledMembersLeave(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	nodes := launch(t, 2, server.URL(), "--grace", "1s", "--node-ttl", "3s")
	var f follower
	watcher := nodes[1].player("watcher", f.event)
	for _, name := range []string{"a", "b", "c"} {
		join(t, nodes[0].player(name, nil), "42")
	}
	f.event(&protocol.Event{Event: protocol.EventSnapshot, Users: join(t, watcher, "42").Users})
	start := time.Now()
	nodes[0].stop(os.Kill)
	back := join(t, nodes[1].player("b", nil), "42")
	if *back.Seat != 1 {
		t.Errorf("b came back to seat %d", *back.Seat)
	}
	took := f.until(t, start, "b", "watcher")
	t.Logf("ghosts were gone %v after the kill (lease 3s, grace 1s)", took.Round(time.Millisecond))
	for _, key := range server.Client().Keys(t.Context(), "Node:*").Val() {
		t.Log(key)
	}
}

// A node stands still until it is taken for dead, and goes on: its players, who
// are still connected, are back in the room.
func TestNode_StoppedComesBack(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	nodes := launch(t, 2, server.URL(), "--grace", "500ms", "--node-ttl", "3s")
	var f follower
	watcher := nodes[1].player("watcher", f.event)
	a := nodes[0].player("a", nil)
	join(t, a, "42")
	f.event(&protocol.Event{Event: protocol.EventSnapshot, Users: join(t, watcher, "42").Users})
	start := time.Now()
	_ = nodes[0].cmd.Process.Signal(syscall.SIGSTOP)
	gone := f.until(t, start, "watcher")
	start = time.Now()
	_ = nodes[0].cmd.Process.Signal(syscall.SIGCONT)
	back := f.until(t, start, "a", "watcher")
	t.Logf("gone %v after SIGSTOP (lease 3s, grace 500ms), back %v after SIGCONT", gone.Round(time.Millisecond), back.Round(time.Millisecond))
	if r, err := a.Do(t.Context(), protocol.Request{Action: protocol.ActionLeave, Room: "42"}); err != nil || r.Count != 1 {
		t.Errorf("a leaves: %+v, %v", r, err)
	}
}

// Redis restarts, empty or with what its log has: every player who is connected is
// back in the room.
func TestRedis_Restarts(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	const players = 30
	for name, flags := range map[string][]string{"empty": nil, "with AOF": {"--appendonly", "yes", "--appendfsync", "always"}} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, flags...)
			nodes := launch(t, 3, server.URL(), "--rate", "off") // the test asks without a pause
			want := map[string]int{}
			var followers [players]follower
			var clients []*client.Conn
			for i := range players {
				user := fmt.Sprint("player", i)
				c := nodes[i%3].player(user, followers[i].event)
				want[user] = *join(t, c, "42").Seat
				clients = append(clients, c)
			}
			start := time.Now()
			server.Restart()
			var seats map[string]int
			for len(seats) < players {
				r, err := clients[0].Do(t.Context(), protocol.Request{Action: protocol.ActionUsers, Room: "42"})
				if errors.Is(err, client.ErrClosed) {
					t.Fatal(err)
				}
				if err != nil {
					continue // unavailable as yet
				}
				seats = map[string]int{}
				for _, u := range r.Users {
					seats[u.User] = u.Seat
				}
			}
			t.Logf("all %d were back in the room %v after the restart began", players, time.Since(start).Round(time.Millisecond))
			kept := 0
			for user, seat := range want {
				if seats[user] == seat {
					kept++
				}
			}
			if kept < players {
				t.Errorf("%d of %d kept their seats", kept, players)
			}
			for _, c := range clients {
				if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionLeave, Room: "42"}); err != nil {
					t.Errorf("leave: %v", err)
				}
			}
		})
	}
}

// Three nodes are restarted one after the other while their players come back
// wherever they can: nobody loses a seat, and nobody is seen to leave.
func TestRestart_Rolling(t *testing.T) {
	redistest.Thorough(t) // TestReconnect_ClientsStayConnected always has one
	t.Parallel()          // it mostly waits
	server := redistest.Start(t)
	nodes := launch(t, 3, server.URL(), "--rate", "off")
	var mu sync.Mutex
	var left []string
	watch := func(e *protocol.Event) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range e.Changes {
			if c.Type == "leave" && strings.HasPrefix(c.User, "player") {
				left = append(left, c.User)
			}
		}
	}
	const players = 12
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	joined := make(chan struct{}, players)
	for i := range players {
		wg.Go(func() { // reconnects whenever it is asked to
			seat, first := -1, true
			for at := i; ctx.Err() == nil; at++ {
				c, err := client.Dial(ctx, "ws://"+nodes[at%3].addr+"/ws", client.Options{User: fmt.Sprint("player", i), OnEvent: watch})
				if err != nil {
					continue
				}
				if r, err := c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err == nil {
					if !first && *r.Seat != seat {
						t.Errorf("player%d had seat %d and has %d", i, seat, *r.Seat)
					}
					if seat = *r.Seat; first {
						joined <- struct{}{}
					}
					first = false
					select {
					case <-c.Done():
					case <-ctx.Done():
					}
				}
				c.Close()
			}
		})
	}
	for range players {
		<-joined
	}
	var actions atomic.Int64
	for i := range 9 { // others come and go all the while
		wg.Go(func() {
			for at := i; ctx.Err() == nil; at++ {
				c, err := client.Dial(ctx, "ws://"+nodes[at%3].addr+"/ws", client.Options{User: fmt.Sprint("guest", i)})
				if err != nil {
					continue
				}
				for err == nil {
					if _, err = c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err == nil {
						_, err = c.Do(ctx, protocol.Request{Action: protocol.ActionLeave, Room: "42"})
						actions.Add(2)
					}
				}
				c.Close()
			}
		})
	}
	for _, p := range nodes {
		p.stop(syscall.SIGTERM)
		p.start()
	}
	seated := 0
	for _, user := range server.Client().HKeys(t.Context(), "Room:42:Users").Val() {
		if strings.HasPrefix(user, "player") {
			seated++
		}
	}
	if seated != players || actions.Load() < 100 {
		t.Errorf("%d of %d are in the room after %d actions of others", seated, players, actions.Load())
	}
	t.Logf("3 restarts, %d actions of others meanwhile", actions.Load())
	mu.Lock()
	if len(left) > 0 {
		t.Errorf("%v were seen to leave", left)
	}
	mu.Unlock()
	cancel()
	wg.Wait()
}
