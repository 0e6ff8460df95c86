package audit

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/internal/model"
	"roomd/lockmgr/redisconn"
)

var (
	//go:embed lua/read.lua
	readLua    string
	readScript = redis.NewScript(readLua)
)

// keysOf returns the keys of a room: its journal, its members, Meta, and the messages that it keeps.
func keysOf(client redis.UniversalClient, prefix, id string) []string {
	if _, cluster := client.(*redis.ClusterClient); cluster {
		id = "{" + id + "}"
	}
	room := prefix + "Room:" + id
	return []string{room + ":Log", room + ":Users", room + ":Meta", room + ":Said"}
}

// raw is an entry of the stream.
type raw struct{ id, commit string }

// page is a part of a journal, and at its end also the room.
type page struct {
	entries []raw
	full    bool         // there may be more
	end     *model.Final // nil if it was not read
}

// readEntries reads up to n entries, starting with the entry from if that is still there.
func readEntries(ctx context.Context, client redis.UniversalClient, keys []string, from string, n int) (*page, error) {
	var messages []redis.XMessage
	err := redisconn.UntilMoved(ctx, func() (err error) {
		messages, err = client.XRangeN(ctx, keys[0], from, "+", int64(n)).Result()
		redisconn.SeekMaster(ctx, client, err)
		return err
	})
	p := &page{full: len(messages) >= n}
	for _, m := range messages {
		text, _ := m.Values["commit"].(string)
		p.entries = append(p.entries, raw{m.ID, text})
	}
	return p, err
}

// readEnd is like readEntries. If there are less than n entries, it also reads the room, in the same step. It
// costs Redis more for each entry.
func readEnd(ctx context.Context, client redis.UniversalClient, keys []string, from string, n int) (*page, error) {
	var reply []any
	err := redisconn.UntilMoved(ctx, func() (err error) {
		reply, err = readScript.RunRO(ctx, client, keys, from, n).Slice()
		redisconn.SeekMaster(ctx, client, err)
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &page{full: len(reply) == 1}
	entries, _ := reply[0].([]any)
	for _, e := range entries {
		parts, _ := e.([]any)
		if len(parts) != 2 {
			return nil, fmt.Errorf("an entry of %s has %d parts", keys[0], len(parts))
		}
		id, _ := parts[0].(string)
		p.entries = append(p.entries, raw{id, pairs(parts[1])["commit"]})
	}
	if len(reply) == 5 {
		p.end = &model.Final{Users: pairs(reply[1]), Meta: pairs(reply[2])}
		ttls, _ := reply[3].([]any)
		for _, ttl := range ttls {
			ms, _ := ttl.(int64)
			p.end.TTLs = append(p.end.TTLs, ms)
		}
		said, _ := reply[4].([]any)
		for _, m := range said {
			if parts, _ := m.([]any); len(parts) == 2 {
				p.end.Said = append(p.end.Said, pairs(parts[1])["message"])
			}
		}
	}
	return p, nil
}

// pairs makes a map from alternating names and values.
func pairs(reply any) map[string]string {
	flat, _ := reply.([]any)
	m := make(map[string]string, len(flat)/2)
	for i := 1; i < len(flat); i += 2 {
		name, _ := flat[i-1].(string)
		m[name], _ = flat[i].(string)
	}
	return m
}

// search returns the sorted ids of rooms that match cfg and have a key of a kind ("Log" or "Meta"). On a
// Cluster it asks each master.
func search(ctx context.Context, client redis.UniversalClient, cfg Config, kind string) ([]string, error) {
	open, end := cfg.KeyPrefix+"Room:", ":"+kind
	if _, cluster := client.(*redis.ClusterClient); cluster {
		open, end = cfg.KeyPrefix+"Room:{", "}:"+kind
	}
	found := make(map[string]bool)
	err := redisconn.Scan(ctx, client, open+cfg.Rooms+end, 0, func(_ context.Context, keys []string) error {
		for _, key := range keys {
			found[strings.TrimSuffix(strings.TrimPrefix(key, open), end)] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}
