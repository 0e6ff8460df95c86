package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"roomd/loadtest/history"
	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/client"
)

const (
	// verifyTimeout bounds the requests to Redis and the nodes at the end.
	verifyTimeout = time.Minute

	defaultCatchUp = 10 * time.Second

	// timerPause is between two looks for timers that have not fired.
	timerPause = 50 * time.Millisecond

	// holdTime is far longer than a hold, and shorter than any lock's TTL.
	holdTime = 250 * time.Millisecond
)

// verify compares the history with Redis, the nodes, and what the players know. All
// requests have their answers by now. But the server may remove a user late whose
// connection broke, so verify reads everything again if a room has changed meanwhile. First
// it waits until all timers have fired. An error means that it could not read the lists.
func (g *game) verify(ctx context.Context, db *redisurl.DB) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	for _, user := range g.lost {
		for _, id := range g.matched {
			v := g.ledger.View(id, user, user)
			v.Unknown(history.Join)
			v.Cut()
		}
	}
	for {
		final, answers, err := g.lists(ctx, db)
		if err != nil {
			return err
		}
		if hasTimers(answers) {
			if err := pause.For(ctx, timerPause); err != nil {
				return fmt.Errorf("a timer does not fire: %w", err)
			}
			continue
		}
		beliefs := g.beliefs(final)
		after, _, err := g.lists(ctx, db)
		if err != nil {
			return err
		}
		if !sameVersions(final, after) {
			continue
		}
		for n, answer := range answers {
			for _, id := range g.allRooms() {
				g.ledger.CheckNode(fmt.Sprintf("node-%d", n+1), id, answer[id], final[id])
			}
		}
		for _, b := range beliefs {
			g.ledger.CheckNode(b.player.name+" on "+b.player.where, b.room, b.state, final[b.room])
		}
		g.ledger.Check(final)
		return nil
	}
}

// hasTimers reports whether a room has timers, which will change it.
func hasTimers(answers []map[string]history.RoomState) bool {
	for _, rooms := range answers {
		for _, state := range rooms {
			if len(state.Timers) > 0 {
				return true
			}
		}
	}
	return false
}

// lists returns the rooms as Redis has them, or without Redis as the first node has
// them, and every node's answer.
func (g *game) lists(ctx context.Context, db *redisurl.DB) (final map[string]history.RoomState, answers []map[string]history.RoomState, err error) {
	if g.cfg.readsStore() {
		if final, err = readStore(ctx, db, g.cfg.KeyPrefix, g.allRooms()); err != nil {
			return nil, nil, fmt.Errorf("read the lists from %s: %w", db, err)
		}
	}
	if answers, err = g.askNodes(ctx); err != nil {
		return nil, nil, fmt.Errorf("read the lists from the nodes: %w", err)
	}
	if final == nil {
		final = answers[0]
	}
	return final, answers, nil
}

func sameVersions(a, b map[string]history.RoomState) bool {
	return maps.EqualFunc(a, b, func(x, y history.RoomState) bool { return x.Epoch == y.Epoch && x.Version == y.Version })
}

// belief is what a player knows of a room that it is in.
type belief struct {
	player *player
	room   string
	state  history.RoomState
}

// beliefs returns what all players know of their rooms.
func (g *game) beliefs(final map[string]history.RoomState) (all []belief) {
	deadline := time.Now().Add(cmp.Or(g.cfg.catchUp, defaultCatchUp))
	for _, p := range g.players {
		p.hear()
		for _, id := range p.members {
			all = append(all, belief{p, id, p.stateAt(id, final[id].Version, deadline)})
		}
	}
	return all
}

// stateAt returns what the player knows of a room, when it knows the given version or
// the deadline has passed.
func (p *player) stateAt(id string, version uint64, deadline time.Time) history.RoomState {
	for {
		p.mu.Lock()
		state := p.viewLocked(id).State()
		p.mu.Unlock()
		if state.Version >= version || time.Now().After(deadline) {
			return state
		}
		time.Sleep(time.Millisecond)
	}
}

// askNodes returns every node's answer for every room.
func (g *game) askNodes(ctx context.Context) ([]map[string]history.RoomState, error) {
	answers := make([]map[string]history.RoomState, len(g.fleet.urls))
	for n, url := range g.fleet.urls {
		c, err := client.Dial(ctx, url, client.Options{User: "roomload"})
		if err != nil {
			return nil, err
		}
		answers[n] = make(map[string]history.RoomState)
		for _, id := range g.allRooms() {
			r, err := c.Users(ctx, id)
			if err != nil {
				c.Close()
				return nil, err
			}
			answers[n][id] = history.RoomState{Epoch: r.Epoch, Version: r.Version, Users: toMembers(r.Users),
				Data: string(r.Data), Settings: toRules(r.Version, r.Settings), Timers: toTimers(r.Timers), Host: r.Host}
		}
		c.Close()
	}
	return answers, nil
}
