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

// hall is the two servers and their clients. At each table half of the players act and
// half stay. If all acted, they would do so in step: those who share a hold get their
// answers at the same time and ask again at the same time, and nobody would be in the room
// to get an event.
type hall struct {
	load    workload
	meter   *meter
	rooms   []string
	node    *wsnode.Node
	echo    *echo.Server
	players []*socket // at the node; the first half act
	callers []*socket // at the echo server; the first half act

	listening sync.WaitGroup
	mu        sync.Mutex
	deaf      []error // guarded by mu; why players stopped listening
}

// acting returns the sockets that act.
func (h *hall) acting(sockets []*socket) []*socket { return sockets[:h.load.clients/2] }

// staying returns the sockets that stay.
func (h *hall) staying(sockets []*socket) []*socket { return sockets[h.load.clients/2:] }

// open starts both servers and makes all connections.
func (h *hall) open(ctx context.Context, b *bench, name string) (err error) {
	h.node, err = wsnode.Start(ctx, wsnode.Config{
		Listen: "127.0.0.1:0",
		Redis:  b.redis.DB(),
		Room:   coordinator.Options{Node: name, Rules: room.Rules{Seating: room.Capacity(h.load.clients / h.load.rooms)}},
		// Sockets answer no pings between their turns.
		Serve: transport.Options{PingInterval: max(transport.DefaultPingInterval, 2*b.duration+time.Minute), Rate: -1, MaxPerAddress: -1},
	})
	if err != nil {
		return fmt.Errorf("start a node: %w", err)
	}
	if h.echo, err = echo.Start(); err != nil {
		return fmt.Errorf("start the echo server: %w", err)
	}
	if h.players, err = h.connect(ctx, h.node.URL()); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if h.callers, err = h.connect(ctx, h.echo.URL()); err != nil {
		return fmt.Errorf("connect to the echo server: %w", err)
	}
	return h.seat(ctx)
}

// seat lets the staying players join.
func (h *hall) seat(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(dialsAtOnce)
	for _, s := range h.staying(h.players) {
		s.until(time.Now().Add(fillTimeout))
		group.Go(func() error { return s.act(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	for _, s := range h.staying(h.players) {
		s.until(time.Time{})
		h.listening.Go(func() {
			err := s.listen()
			h.mu.Lock()
			defer h.mu.Unlock()
			h.deaf = append(h.deaf, err)
		})
	}
	return nil
}

// allHeard returns an error if a staying player has stopped listening.
func (h *hall) allHeard() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.deaf) > 0 {
		return fmt.Errorf("%d players were cut off, the first: %w", len(h.deaf), h.deaf[0])
	}
	return nil
}

// connect returns a socket for each client, connected unless there is an error.
func (h *hall) connect(ctx context.Context, address string) (sockets []*socket, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for i := range h.load.clients {
		at := h.load.room(i)
		s, err := newSocket(at, h.rooms[at], user(i))
		if err != nil {
			return sockets, err
		}
		sockets = append(sockets, s)
		group.Go(func() error { return s.dial(ctx, address) })
	}
	return sockets, group.Wait()
}

// turn lets the acting half of the sockets act for duration.
func (h *hall) turn(ctx context.Context, sockets []*socket, duration time.Duration) (*tally, error) {
	deadline := time.Now().Add(maxWarmUp + duration + grace)
	actors := make([]actor, len(h.acting(sockets)))
	for i, s := range h.acting(sockets) {
		s.until(deadline)
		actors[i] = s
	}
	runtime.GC()
	return drive(ctx, actors, duration, func(ctx context.Context) (usage, error) {
		u, err := h.meter.read(ctx)
		for _, s := range sockets {
			u.events += float64(s.events.Load())
		}
		return u, err
	})
}

// check asks the node for every room.
func (h *hall) check(ctx context.Context) (v Violations, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	rosters := make([]*roster, len(h.rooms))
	for i, id := range h.rooms {
		rosters[i] = newRoster(id, nil)
	}
	for _, s := range h.players {
		rosters[s.room].add(s.user, s.membership)
	}
	c, err := client.Dial(ctx, h.node.URL(), client.Options{User: "roomload"})
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
func (h *hall) close() {
	for _, s := range slices.Concat(h.players, h.callers) {
		s.close()
	}
	h.listening.Wait()
	if h.echo != nil {
		h.echo.Close()
	}
	if h.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = h.node.Shutdown(ctx)
	}
}
