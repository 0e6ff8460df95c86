package loadtest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/history"
	"roomd/room/redisurl"
	"roomd/transport/client"
)

const (
	// proveTimeout bounds what is asked of Redis and the nodes at the end.
	proveTimeout = time.Minute

	// catchUp is how long a player may take, when all is quiet, to hear of the
	// last commit of its rooms.
	catchUp = 10 * time.Second
)

// prove holds what everybody was told against Redis, the nodes, and what the
// players know. All requests have been answered by now. An error means that the
// lists could not be read.
func (g *game) prove(ctx context.Context, db *redisurl.DB) error {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	answers, err := g.askNodes(ctx)
	if err != nil {
		return fmt.Errorf("read the lists from the nodes: %w", err)
	}
	final := answers[0]
	if g.cfg.readsStore() {
		if final, err = readStore(ctx, db, g.rooms); err != nil {
			return fmt.Errorf("read the lists from %s: %w", db, err)
		}
	}
	for n, answer := range answers {
		for _, id := range g.rooms {
			g.ledger.CheckNode(fmt.Sprintf("node-%d", n+1), id, answer[id], final[id])
		}
	}
	deadline := time.Now().Add(catchUp)
	for _, p := range g.players {
		for _, id := range p.members {
			g.ledger.CheckNode(p.name+" on "+p.where, id, p.knows(id, final[id].Version, deadline), final[id])
		}
	}
	g.ledger.Check(final)
	return nil
}

// knows returns what the player was told of a room, once it has heard of the
// given version or the deadline has passed.
func (p *player) knows(id string, version uint64, deadline time.Time) history.RoomState {
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

// askNodes returns every node's own answer for every room.
func (g *game) askNodes(ctx context.Context) ([]map[string]history.RoomState, error) {
	answers := make([]map[string]history.RoomState, len(g.fleet.urls))
	for n, url := range g.fleet.urls {
		c, err := client.Dial(ctx, url, client.Options{User: "roomload"})
		if err != nil {
			return nil, err
		}
		answers[n] = make(map[string]history.RoomState)
		for _, id := range g.rooms {
			r, err := c.Users(ctx, id)
			if err != nil {
				c.Close()
				return nil, err
			}
			answers[n][id] = history.RoomState{Epoch: r.Epoch, Version: r.Version, Users: toMembers(r.Users)}
		}
		c.Close()
	}
	return answers, nil
}

// readStore reads the rooms from Redis by the keys of the contract, and not with
// the server's code, whose mistakes would then be its own alibi.
func readStore(ctx context.Context, db *redisurl.DB, rooms []string) (map[string]history.RoomState, error) {
	rdb := db.NewClient()
	defer rdb.Close()
	final := make(map[string]history.RoomState)
	for _, id := range rooms {
		var users *redis.MapStringStringCmd
		var meta *redis.MapStringStringCmd
		if _, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			users = tx.HGetAll(ctx, "Room:"+id+":Users")
			meta = tx.HGetAll(ctx, "Room:"+id+":Meta")
			return nil
		}); err != nil {
			return nil, err
		}
		state := history.RoomState{Epoch: meta.Val()["epoch"]}
		if text := meta.Val()["version"]; text != "" {
			version, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("Room:%s:Meta: %w", id, err)
			}
			state.Version = version
		}
		for user, text := range users.Val() {
			var member struct {
				Seat int `json:"seat"`
			}
			if err := json.Unmarshal([]byte(text), &member); err != nil {
				return nil, fmt.Errorf("Room:%s:Users, %s: %w", id, user, err)
			}
			state.Users = append(state.Users, history.Member{User: user, Seat: member.Seat})
		}
		final[id] = state
		if n := rdb.Exists(ctx, "LockRoom:"+id).Val(); n != 0 {
			return nil, fmt.Errorf("LockRoom:%s is left over after the last reply", id)
		}
	}
	return final, nil
}
