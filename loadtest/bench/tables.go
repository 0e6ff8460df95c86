package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/bench/echo"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/client"
	wsnode "roomd/transport/node"
)

const dialsAtOnce = 32

// tables is a WebSocket workload: roomd's nodes, an echo server, and their clients. At each table half of the players act and
// half stay. If all acted, they would do so in step: those who share a hold get their
// answers at the same time and ask again at the same time, and nobody would be in the room
// to get an event.
type tables struct {
	load    workload
	meter   *meter
	rooms   []string
	nodes   []*wsnode.Node
	echo    *echo.Server
	players []*socket // at the nodes; the first half act
	callers []*socket // at the echo server; the first half act

	listening sync.WaitGroup
	mu        sync.Mutex
	deaf      []error // guarded by mu; why players stopped listening
}

// acting returns the sockets that act.
func (t *tables) acting(sockets []*socket) []*socket { return sockets[:t.load.clients/2] }

// staying returns the sockets that stay.
func (t *tables) staying(sockets []*socket) []*socket { return sockets[t.load.clients/2:] }

// open starts all servers and makes all connections.
func (t *tables) open(ctx context.Context, b *bench, name string) (err error) {
	for i := range t.load.nodes {
		node, err := wsnode.Start(ctx, wsnode.Config{
			Listen: "127.0.0.1:0",
			Redis:  b.redis.DB(),
			Room:   coordinator.Options{Node: fmt.Sprint(name, i), Rules: room.Rules{Seating: room.Capacity(t.load.clients / t.load.rooms)}},
			// Sockets answer no pings between their turns.
			Serve: transport.Options{PingInterval: max(transport.DefaultPingInterval, 2*b.duration+time.Minute), Rate: -1, MaxPerAddress: -1, MaxNewRooms: -1},
		})
		if err != nil {
			return fmt.Errorf("start a node: %w", err)
		}
		t.nodes = append(t.nodes, node)
	}
	if t.echo, err = echo.Start(); err != nil {
		return fmt.Errorf("start the echo server: %w", err)
	}
	if t.players, err = t.connect(ctx, func(client int) string { return t.nodes[t.load.node(client)].URL() }); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if t.callers, err = t.connect(ctx, func(int) string { return t.echo.URL() }); err != nil {
		return fmt.Errorf("connect to the echo server: %w", err)
	}
	return t.seat(ctx)
}

// seat lets the staying players join.
func (t *tables) seat(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(dialsAtOnce)
	for _, s := range t.staying(t.players) {
		s.until(time.Now().Add(fillTimeout))
		group.Go(func() error { return s.act(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	for _, s := range t.staying(t.players) {
		s.until(time.Time{})
		t.listening.Go(func() {
			err := s.listen()
			t.mu.Lock()
			defer t.mu.Unlock()
			t.deaf = append(t.deaf, err)
		})
	}
	return nil
}

// allHeard returns an error if a staying player has stopped listening.
func (t *tables) allHeard() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.deaf) > 0 {
		return fmt.Errorf("%d players were cut off, the first: %w", len(t.deaf), t.deaf[0])
	}
	return nil
}

// connect returns a socket for each client, connected to its address unless there is an error.
func (t *tables) connect(ctx context.Context, address func(client int) string) (sockets []*socket, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for i := range t.load.clients {
		at := t.load.room(i)
		s, err := newSocket(at, t.rooms[at], user(i))
		if err != nil {
			return sockets, err
		}
		s.pace = t.load.pace
		sockets = append(sockets, s)
		group.Go(func() error { return s.dial(ctx, address(i)) })
	}
	return sockets, group.Wait()
}

// turn lets the acting half of the sockets act for duration.
func (t *tables) turn(ctx context.Context, sockets []*socket, duration time.Duration) (*measurement, error) {
	deadline := time.Now().Add(maxWarmUp + duration + grace)
	actors := t.acting(sockets)
	for _, s := range actors {
		s.until(deadline)
	}
	runtime.GC()
	return drive(ctx, actors, duration, func(ctx context.Context) (usage, error) {
		u, err := t.meter.read(ctx)
		for _, s := range sockets {
			u.events += float64(s.events.Load())
		}
		return u, err
	})
}

// check asks the last node for every room.
func (t *tables) check(ctx context.Context) (v Violations, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	rosters := make([]*roster, len(t.rooms))
	for i, id := range t.rooms {
		rosters[i] = newRoster(id, nil)
	}
	for _, s := range t.players {
		rosters[s.room].add(s.user, s.membership)
	}
	c, err := client.Dial(ctx, t.nodes[len(t.nodes)-1].URL(), client.Options{User: "roomload"})
	if err != nil {
		return v, err
	}
	defer c.Close()
	for _, r := range rosters {
		reply, err := c.Users(ctx, r.room)
		if err != nil {
			return v, err
		}
		list := make([]string, len(reply.Users))
		for i, u := range reply.Users {
			list[i] = u.User
		}
		v.check(r, list)
	}
	return v, nil
}

// close ends the clients, and then the servers, which have nobody to wait for any more.
func (t *tables) close() {
	for _, s := range slices.Concat(t.players, t.callers) {
		s.close()
	}
	t.listening.Wait()
	if t.echo != nil {
		t.echo.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, node := range t.nodes {
		_ = node.Shutdown(ctx)
	}
}
