package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/internal/tally"
)

// dialsAtOnce is how many clients of a swarm connect at a time, unless all do.
const dialsAtOnce = 32

// ConnectConfig says who connects.
type ConnectConfig struct {
	Address     string
	First, N    int    // the numbers of the clients; each has one
	Room        string // the rooms' names begin with it
	RoomSize    int    // clients with a room in common
	Join        bool   // each joins its room, and is in when that is answered
	At          time.Time
	AllTogether bool // at the time At, and not a few after the others

	// Addresses of several nodes, if there are any, are those that clients connect to, each to one at random, as a load balancer has it.
	// The same number leads to the same one.
	Addresses []string
}

// address returns where the i-th client connects.
func (c ConnectConfig) address(i int) string {
	if len(c.Addresses) == 0 {
		return c.Address
	}
	return c.Addresses[rand.New(rand.NewPCG(uint64(i), 1)).IntN(len(c.Addresses))]
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
	time.Sleep(time.Until(cfg.At))
	start := time.Now()
	clients := make([]*client, cfg.N)
	var group errgroup.Group
	if !cfg.AllTogether {
		group.SetLimit(dialsAtOnce)
	}
	for n := range clients {
		group.Go(func() error {
			i := cfg.First + n
			c, err := newClient(context.Background(), cfg.address(i), fmt.Sprintf("player-%d", i), fmt.Sprintf("%s%d", cfg.Room, i/max(1, cfg.RoomSize)), i)
			if err == nil && cfg.Join {
				if err = c.act(); err != nil {
					c.close()
				}
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
			if c.in || c.isGone() {
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

// PlayConfig says how the clients of a swarm play.
type PlayConfig struct {
	WarmUp   time.Duration // whose actions are not counted
	Duration time.Duration // after that
	Pace     time.Duration // between two actions of a client, on average
}

// Played is what a swarm's clients saw.
type Played struct {
	// Latency is of each action, from when it was due: a server that stands still is seen by every
	// action that was due meanwhile, and not only by those that were on their way. Refusals are actions that got another
	// answer, errors are players who were cut off.
	Latency *tally.Tally

	// Late is how late this process itself was with each action that did not wait for another. If
	// that is much, the figures are those of a busy machine, and not of the server.
	Late *tally.Tally
}

// Play lets all clients join and leave their rooms at a human pace, each at times of its own.
func (s *Swarm) Play(ctx context.Context, cfg PlayConfig) (p Played, err error) {
	return p, s.process.call(ctx, "Swarm.Play", cfg, &p)
}

// Play lets the clients play.
func (s *swarmChild) Play(cfg PlayConfig, p *Played) error {
	start := time.Now()
	from := start.Add(cfg.WarmUp)
	until := from.Add(cfg.Duration)
	p.Latency, p.Late = new(tally.Tally), new(tally.Tally)
	var playing sync.WaitGroup
	for _, c := range s.clients {
		playing.Go(func() {
			due := start.Add(time.Duration(rand.Float64() * float64(cfg.Pace)))
			for due.Before(until) {
				waited := time.Until(due)
				time.Sleep(waited)
				begun := time.Now()
				err := c.act()
				if !due.Before(from) || err != nil {
					count(p.Latency, time.Since(due), err)
				}
				if waited > 0 && !due.Before(from) {
					p.Late.Record(begun.Sub(due))
				}
				if c.isGone() {
					return
				}
				due = due.Add(time.Duration((0.5 + rand.Float64()) * float64(cfg.Pace)))
			}
		})
	}
	playing.Wait()
	return nil
}

// act joins or leaves, by turns.
func (c *client) act() error {
	request := c.join
	if c.in {
		request = c.leave
	}
	err := c.do(request)
	if err == nil {
		c.in = !c.in
	}
	return err
}

// isGone reports whether the connection has ended.
func (c *client) isGone() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}
