package store

import (
	"context"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/room/coordinator/internal/keys"
)

// Foreign is another program's value under the key of a room's members.
type Foreign struct {
	Key, Type string // as Redis names its key and type
	Room      string // the room's id; CheckID may refuse it
}

// FindForeign searches all masters for keys of members that are not hashes, and calls found for each, one at a time.
// It scans the whole key space: about a second for a million keys.
func (s *Store) FindForeign(ctx context.Context, found func(Foreign)) error {
	seen := make(map[string]bool)
	return redisconn.Scan(ctx, s.Client, s.Room("*", keys.Users), 0, func(ctx context.Context, users []string) error {
		types, err := s.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range users {
				p.Type(ctx, key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, key := range users {
			kind := types[i].(*redis.StatusCmd).Val()
			if kind != "hash" && kind != "none" && !seen[key] {
				seen[key] = true
				found(Foreign{key, kind, s.RoomOf(key, keys.Users)})
			}
		}
		return nil
	})
}
