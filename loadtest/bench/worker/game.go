package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/internal/tally"
	"roomd/transport/protocol"
)

// A game's requests. Of ten actions of a member four set the room's data, two say that it is ready, and that it is not, two say something,
// and the last two leave and come back at once. Each changes something, so all who are at a table get an event of it, but for who leaves or comes.
var gameOf = []protocol.Request{
	readyAt: {ID: 11, Action: protocol.ActionReady, Value: true},
	{ID: 12, Action: protocol.ActionSet, Data: `{"turn":"player-1042","cards":["7h","Qs","2d","Jc"],"pot":1250,"round":3}`},
	{ID: 13, Action: protocol.ActionSay, Text: "well played, but this one is mine"},
	{ID: 14, Action: protocol.ActionSet, Data: `{"turn":"player-1043","cards":["7h","Qs","2d","Jc"],"pot":1300,"round":3}`},
	unreadyAt: {ID: 15, Action: protocol.ActionReady},
	{ID: 16, Action: protocol.ActionSet, Data: `{"turn":"player-1044","cards":["7h","Qs","2d","Jc"],"pot":1350,"round":3}`},
	{ID: 17, Action: protocol.ActionSay, Text: "your turn"},
	{ID: 18, Action: protocol.ActionSet, Data: `{"turn":"player-1045","cards":["7h","Qs","2d","Jc"],"pot":1400,"round":3}`},
	{ID: leaveID, Action: protocol.ActionLeave},
}

// Where the two about being ready are.
const readyAt, unreadyAt = 0, 4

// game is where a client is among the requests.
type game struct {
	requests []request
	next     int
	ready    bool
}

// begin encodes the requests for a room, once. Clients start at different ones.
func (g *game) begin(room string) {
	if g.requests != nil {
		return
	}
	for _, r := range gameOf {
		r.Room = room
		if r.Action == protocol.ActionSet { // as nobody else has set
			r.Data = protocol.JSON(strings.Replace(string(r.Data), "player-1", fmt.Sprintf("player-%08x", rand.Uint32()), 1))
		}
		g.requests = append(g.requests, encode(r))
	}
	g.next = rand.IntN(len(g.requests))
}

// move makes the next action of the game, or the last two, and returns how many it made.
func (c *client) move() (int, error) {
	at := c.game.next
	last := at == len(c.game.requests)-1
	switch {
	case last:
		c.game.ready = false
	case at == readyAt || at == unreadyAt:
		if at = readyAt; c.game.ready {
			at = unreadyAt
		}
		c.game.ready = !c.game.ready
	}
	if err := c.do(c.game.requests[at]); err != nil {
		return 0, err
	}
	c.done.Add(1)
	c.game.next = (c.game.next + 1) % len(c.game.requests)
	if !last {
		return 1, nil
	}
	if err := c.do(c.join); err != nil {
		return 1, err
	}
	c.done.Add(1)
	return 2, nil
}

// GameConfig says how long and how fast the clients play a game.
type GameConfig struct {
	Duration time.Duration
	Pace     time.Duration // between two actions of a client, on average
}

// ahead is for how many paces, at least, clients have played before they begin.
const ahead = 4

// gap returns how long a client waits after so many actions.
func (c GameConfig) gap(made int) time.Duration {
	return time.Duration(float64(max(1, made)) * (0.5 + rand.Float64()) * float64(c.Pace))
}

// Join lets the clients who are in no room join theirs. The tally is as that of Connect.
func (s *Swarm) Join(ctx context.Context) (*tally.Tally, error) {
	t := new(tally.Tally)
	return t, s.process.call(ctx, "Swarm.Join", 0, t)
}

// Join lets the clients join.
func (s *swarmChild) Join(_ int, t *tally.Tally) error {
	start := time.Now()
	var group errgroup.Group
	group.SetLimit(dialsAtOnce)
	for _, c := range s.clients {
		if c.in {
			continue
		}
		group.Go(func() error {
			count(t, time.Since(start), c.act())
			return nil
		})
	}
	return group.Wait()
}

// PlayGame lets all clients, who are in their rooms, act at a rate that does not depend on how fast the server is, each at
// times of its own; see gameOf. What Played says is as of Play.
func (s *Swarm) PlayGame(ctx context.Context, cfg GameConfig) (p Played, err error) {
	return p, s.process.call(ctx, "Swarm.PlayGame", cfg, &p)
}

// PlayGame lets the clients play.
func (s *swarmChild) PlayGame(cfg GameConfig, p *Played) error {
	start := time.Now()
	until := start.Add(cfg.Duration)
	p.Latency, p.Late = new(tally.Tally), new(tally.Tally)
	var playing sync.WaitGroup
	for _, c := range s.clients {
		c.game.begin(c.room)
		playing.Go(func() {
			due := start.Add(-time.Duration((1 + rand.Float64()) * ahead * float64(cfg.Pace)))
			for due.Before(start) { // as if it had played for long, or the first actions would come too close
				due = due.Add(cfg.gap(1))
			}
			for due.Before(until) && time.Now().Before(until) && !c.isGone() { // a server that is behind keeps nobody longer
				waited := time.Until(due)
				time.Sleep(waited)
				begun := time.Now()
				made, err := c.move()
				count(p.Latency, time.Since(due), err)
				if waited > 0 {
					p.Late.Record(begun.Sub(due))
				}
				due = due.Add(cfg.gap(made))
			}
		})
	}
	playing.Wait()
	return nil
}

// Traffic is what the clients of a swarm have done and heard so far.
type Traffic struct {
	Actions, Events int64 // acknowledged actions of games; events that came
	Received, Sent  int64 // bytes, with the heads of frames, and handshakes
}

// Traffic returns what its clients have done and heard.
func (s *Swarm) Traffic(ctx context.Context) (t Traffic, err error) {
	return t, s.process.call(ctx, "Swarm.Traffic", 0, &t)
}

// Traffic counts. Connect must not run meanwhile.
func (s *swarmChild) Traffic(_ int, t *Traffic) error {
	for _, c := range s.clients {
		t.Actions += c.done.Load()
		t.Events += c.events.Load()
		t.Received += c.wire.received.Load()
		t.Sent += c.wire.sent.Load()
	}
	return nil
}
