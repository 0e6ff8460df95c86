package worker

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/internal/tally"
)

// dialsAtOnce is how many clients of a swarm connect at a time.
const dialsAtOnce = 32

// ConnectConfig says who connects.
type ConnectConfig struct {
	Address  string
	First, N int    // the numbers of the clients; each has one
	Room     string // the rooms' names begin with it
	RoomSize int    // clients with a room in common
	Join     bool   // each joins its room, and is in when that is answered
}

// Swarm is many clients in a process of their own.
type Swarm struct{ process *process }

// StartSwarm starts a process without clients.
func StartSwarm(ctx context.Context) (*Swarm, error) {
	p, err := launch(ctx)
	if err != nil {
		return nil, err
	}
	return &Swarm{p}, nil
}

// Connect adds clients. They stay until Leave. The tally has how long each took since the beginning. Clear answers
// of the server are refusals by kind; everything else is an error: a connection that is reset, or nothing at all.
func (s *Swarm) Connect(ctx context.Context, cfg ConnectConfig) (*tally.Tally, error) {
	t := new(tally.Tally)
	return t, s.process.call(ctx, "Swarm.Connect", cfg, t)
}

// Leave lets the clients who are in their rooms leave them, and all close their connections. The
// tally is as that of Connect.
func (s *Swarm) Leave(ctx context.Context) (*tally.Tally, error) {
	t := new(tally.Tally)
	return t, s.process.call(ctx, "Swarm.Leave", 0, t)
}

// Close ends the process.
func (s *Swarm) Close() { s.process.close() }

// swarmChild is the clients' side of it.
type swarmChild struct{ clients []*client }

// actions is what the tallies count that succeeded.
const actions = "actions"

// Done returns how many clients of a tally did what they should.
func Done(t *tally.Tally) int { return int(t.Of(actions).Done) }

// count counts what became of a client.
func count(t *tally.Tally, took time.Duration, err error) {
	var refusal *Refusal
	var errno syscall.Errno
	switch {
	case err == nil:
		t.Count(actions, tally.Done)
		t.Record(took)
	case errors.As(err, &refusal):
		t.Count(refusal.Kind, tally.Refused)
	case errors.As(err, &errno): // without the ports, which are all different
		t.Fail(errno)
	default:
		t.Fail(err)
	}
}

// Connect connects the clients.
func (s *swarmChild) Connect(cfg ConnectConfig, t *tally.Tally) error {
	start := time.Now()
	clients := make([]*client, cfg.N)
	var group errgroup.Group
	group.SetLimit(dialsAtOnce)
	for n := range clients {
		group.Go(func() error {
			i := cfg.First + n
			c, err := newClient(context.Background(), cfg.Address, fmt.Sprintf("player-%d", i), fmt.Sprintf("%s%d", cfg.Room, i/max(1, cfg.RoomSize)), i)
			if err == nil && cfg.Join {
				if err = c.do(c.join); err != nil {
					c.close()
				}
				c.in = err == nil
			}
			if err == nil {
				clients[n] = c
			}
			count(t, time.Since(start), err)
			return nil
		})
	}
	_ = group.Wait()
	for _, c := range clients {
		if c != nil {
			s.clients = append(s.clients, c)
		}
	}
	return nil
}

// Leave lets the clients leave.
func (s *swarmChild) Leave(_ int, t *tally.Tally) error {
	start := time.Now()
	var group errgroup.Group
	for _, c := range s.clients {
		group.Go(func() error {
			if c.in {
				count(t, time.Since(start), c.do(c.leave))
			}
			c.close()
			return nil
		})
	}
	s.clients = nil
	_ = group.Wait()
	return nil
}
