package loadtest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"roomd/loadtest/history"
	"roomd/lockmgr/redisconn/redisurl"
)

// readStore reads the rooms from Redis by the keys of the contract. It does not use the
// server's code, so that a mistake there cannot hide itself.
func readStore(ctx context.Context, db *redisurl.DB, prefix string, rooms []string) (map[string]history.RoomState, error) {
	rdb := db.NewClient()
	defer rdb.Close()
	final := make(map[string]history.RoomState)
	_, cluster := rdb.(*redis.ClusterClient)
	for _, id := range rooms {
		key := id
		if cluster {
			key = "{" + id + "}"
		}
		state, err := readRoom(ctx, rdb, prefix+"Room:"+key)
		if err != nil {
			return nil, err
		}
		final[id] = state
		if stuck(ctx, rdb, prefix+"LockRoom:"+key) {
			return nil, fmt.Errorf("%sLockRoom:%s still exists after the last reply", prefix, id)
		}
	}
	return final, nil
}

// readRoom reads the room whose keys have that prefix.
func readRoom(ctx context.Context, rdb redis.UniversalClient, prefix string) (state history.RoomState, err error) {
	var users, meta *redis.MapStringStringCmd
	if _, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		users = tx.HGetAll(ctx, prefix+":Users")
		meta = tx.HGetAll(ctx, prefix+":Meta")
		return nil
	}); err != nil {
		return state, err
	}
	state.Epoch = meta.Val()["epoch"]
	if text := meta.Val()["version"]; text != "" {
		if state.Version, err = strconv.ParseUint(text, 10, 64); err != nil {
			return state, fmt.Errorf("%s:Meta: %w", prefix, err)
		}
	}
	for user, text := range users.Val() {
		var member struct {
			Seat    int    `json:"seat"`
			Session string `json:"session"`
			Ready   bool   `json:"ready"`
			Data    value  `json:"data"`
			Private value  `json:"private"`
		}
		if err := json.Unmarshal([]byte(text), &member); err != nil {
			return state, fmt.Errorf("%s:Users, %s: %w", prefix, user, err)
		}
		if data := string(member.Private.Value); data != "" {
			if state.Private == nil {
				state.Private = make(map[string]string)
			}
			state.Private[user] = data
		}
		state.Users = append(state.Users, history.Member{
			User: user, Seat: member.Seat, Away: strings.HasPrefix(member.Session, "~"), Ready: member.Ready, Data: string(member.Data.Value),
		})
	}
	if state.Version == 0 {
		return state, nil
	}
	var data value
	state.Settings = new(history.Rules)
	for field, into := range map[string]any{"settings": state.Settings, "data": &data, "host": &state.Host} {
		if text := meta.Val()[field]; text != "" {
			if err := json.Unmarshal([]byte(text), into, json.MatchCaseInsensitiveNames(true)); err != nil {
				return state, fmt.Errorf("%s:Meta, %s: %w", prefix, field, err)
			}
		}
	}
	state.Data = string(data.Value)
	return state, nil
}

// value is JSON that somebody has set.
type value struct {
	Value jsontext.Value `json:"value"`
}

// stuck reports whether a lock stays with one holder. A late leave may hold it for a
// moment.
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
