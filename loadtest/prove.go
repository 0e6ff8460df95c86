package loadtest

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/history"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/client"
)

const (
	// proveTimeout bounds what is asked of Redis and the nodes at the end.
	proveTimeout = time.Minute

	// catchUp is how long a player may take, when all is quiet, to hear of the
	// last commit of its rooms.
	catchUp = 10 * time.Second

	// holdTime is far above how long a hold takes, and below any lock's TTL.
	holdTime = 250 * time.Millisecond
)

// prove holds what everybody was told against Redis, the nodes, and what the
// players know. All requests have been answered by now; but a user whose connection
// broke may leave late, so everything is looked at again if a room has moved
// meanwhile. An error means that the lists could not be read.
func (g *game) prove(ctx context.Context, db *redisurl.DB) error {
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	for {
		final, answers, err := g.lists(ctx, db)
		if err != nil {
			return err
		}
		known := g.known(final)
		after, _, err := g.lists(ctx, db)
		if err != nil {
			return err
		}
		if !sameVersions(final, after) {
			continue
		}
		for n, answer := range answers {
			for _, id := range g.rooms {
				g.ledger.CheckNode(fmt.Sprintf("node-%d", n+1), id, answer[id], final[id])
			}
		}
		for _, k := range known {
			g.ledger.CheckNode(k.player.name+" on "+k.player.where, k.room, k.state, final[k.room])
		}
		g.ledger.Check(final)
		return nil
	}
}

// lists returns the rooms as they are, and every node's answer.
func (g *game) lists(ctx context.Context, db *redisurl.DB) (final map[string]history.RoomState, answers []map[string]history.RoomState, err error) {
	if g.cfg.readsStore() {
		if final, err = readStore(ctx, db, g.rooms); err != nil {
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

// knowledge is what a player was told of a room that it is in.
type knowledge struct {
	player *player
	room   string
	state  history.RoomState
}

func (g *game) known(final map[string]history.RoomState) (all []knowledge) {
	deadline := time.Now().Add(catchUp)
	for _, p := range g.players {
		for _, id := range p.members {
			all = append(all, knowledge{p, id, p.knows(id, final[id].Version, deadline)})
		}
	}
	return all
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
	_, cluster := rdb.(*redis.ClusterClient)
	for _, id := range rooms {
		key := id
		if cluster {
			key = "{" + id + "}"
		}
		var users *redis.MapStringStringCmd
		var meta *redis.MapStringStringCmd
		if _, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			users = tx.HGetAll(ctx, "Room:"+key+":Users")
			meta = tx.HGetAll(ctx, "Room:"+key+":Meta")
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
		if stuck(ctx, rdb, "LockRoom:"+key) {
			return nil, fmt.Errorf("LockRoom:%s is left over after the last reply", id)
		}
	}
	return final, nil
}

// stuck reports whether a lock stays with one holder. For a moment a user may have
// it who leaves late.
func stuck(ctx context.Context, rdb redis.UniversalClient, key string) bool {
	holder := rdb.Get(ctx, key).Val()
	for end := time.Now().Add(holdTime); holder != ""; time.Sleep(holdTime / 50) {
		if rdb.Get(ctx, key).Val() != holder {
			return false
		}
		if time.Now().After(end) {
			return true
		}
	}
	return false
}
