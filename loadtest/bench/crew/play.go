package crew

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// PlayConfig says how the clients of a swarm play.
type PlayConfig struct {
	WarmUp   time.Duration // whose actions are not counted
	Duration time.Duration // after that
	Pace     time.Duration // between two actions of a client, on average
}

// Played is what a swarm's clients saw.
type Played struct {
	// Latency of each action, from when it was due: a server that stands still is seen by every
	// action that was due meanwhile, and not only by those that were on their way.
	Latency []time.Duration

	// Late is how late this process itself was with each action that did not wait for another. If
	// that is much, the figures are those of a busy machine, and not of the server.
	Late []time.Duration

	Refused  map[string]int // actions that got another answer, by its kind
	Failures map[string]int // players who were cut off
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
	var sum tally
	var mu sync.Mutex // guards p.Late
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
					sum.count(time.Since(due), err)
				}
				if waited > 0 && !due.Before(from) {
					mu.Lock()
					p.Late = append(p.Late, begun.Sub(due))
					mu.Unlock()
				}
				if c.isGone() {
					return
				}
				due = due.Add(time.Duration((0.5 + rand.Float64()) * float64(cfg.Pace)))
			}
		})
	}
	playing.Wait()
	p.Latency, p.Refused, p.Failures = sum.outcome.Took, sum.outcome.Refused, sum.outcome.Failures
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
