package crew

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
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
}

// Outcome is what became of a swarm's clients. Clear answers of the server are counted by kind, and
// so is everything else: a connection that is reset, or nothing at all.
type Outcome struct {
	Took     []time.Duration // of those that did it, since the beginning
	Refused  map[string]int
	Failures map[string]int
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

// Connect adds clients. They stay until Leave.
func (s *Swarm) Connect(ctx context.Context, cfg ConnectConfig) (o Outcome, err error) {
	return o, s.process.call(ctx, "Swarm.Connect", cfg, &o)
}

// Leave lets the clients who are in their rooms leave them, and all close their connections.
func (s *Swarm) Leave(ctx context.Context) (o Outcome, err error) {
	return o, s.process.call(ctx, "Swarm.Leave", 0, &o)
}

// Close ends the process.
func (s *Swarm) Close() { s.process.close() }

// swarmChild is the clients' side of it.
type swarmChild struct{ clients []*client }

// tally collects an Outcome.
type tally struct {
	mu      sync.Mutex
	outcome Outcome // guarded by mu
}

func (t *tally) count(took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcome.Refused == nil {
		t.outcome.Refused, t.outcome.Failures = make(map[string]int), make(map[string]int)
	}
	var refusal *Refusal
	var errno syscall.Errno
	switch {
	case err == nil:
		t.outcome.Took = append(t.outcome.Took, took)
	case errors.As(err, &refusal):
		t.outcome.Refused[refusal.Kind]++
	case errors.As(err, &errno): // without the ports, which are all different
		t.outcome.Failures[errno.Error()]++
	default:
		t.outcome.Failures[err.Error()]++
	}
}

// Connect connects the clients.
func (s *swarmChild) Connect(cfg ConnectConfig, o *Outcome) error {
	time.Sleep(time.Until(cfg.At))
	start := time.Now()
	clients := make([]*client, cfg.N)
	var t tally
	var group errgroup.Group
	if !cfg.AllTogether {
		group.SetLimit(dialsAtOnce)
	}
	for n := range clients {
		group.Go(func() error {
			i := cfg.First + n
			c, err := newClient(context.Background(), cfg.Address, fmt.Sprintf("player-%d", i), fmt.Sprintf("%s%d", cfg.Room, i/max(1, cfg.RoomSize)), i)
			if err == nil && cfg.Join {
				if err = c.act(); err != nil {
					c.close()
				}
			}
			if err == nil {
				clients[n] = c
			}
			t.count(time.Since(start), err)
			return nil
		})
	}
	_ = group.Wait()
	for _, c := range clients {
		if c != nil {
			s.clients = append(s.clients, c)
		}
	}
	*o = t.outcome
	return nil
}

// Leave lets the clients leave.
func (s *swarmChild) Leave(_ int, o *Outcome) error {
	start := time.Now()
	var t tally
	var group errgroup.Group
	for _, c := range s.clients {
		group.Go(func() error {
			if c.in || c.isGone() {
				t.count(time.Since(start), c.do(c.leave))
			}
			c.close()
			return nil
		})
	}
	s.clients = nil
	_ = group.Wait()
	*o = t.outcome
	return nil
}
