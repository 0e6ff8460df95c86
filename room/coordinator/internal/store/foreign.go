package store

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/room/coordinator/internal/keys"
)

// Foreign is what another program keeps under the key of a room's members.
type Foreign struct {
	Key, Type string // as Redis names them
	Room      string // its id, which CheckID may refuse
}

// scanCount is how many keys a server looks at for one answer.
const scanCount = 1000

// FindForeign searches all masters for keys of members that are not hashes, and calls found for each of them, one after
// the other. It looks at every key that Redis has: about a second for a million.
func (s *Store) FindForeign(ctx context.Context, found func(Foreign)) error {
	var mu sync.Mutex
	seen := make(map[string]bool) // guarded by mu: SCAN may return a key twice
	report := func(f Foreign) {
		mu.Lock()
		defer mu.Unlock()
		if !seen[f.Key] {
			seen[f.Key] = true
			found(f)
		}
	}
	if client, cluster := s.Client.(*redis.ClusterClient); cluster {
		return client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return s.findForeign(ctx, master, report) })
	}
	return s.findForeign(ctx, s.Client, report)
}

// findForeign searches one master, page by page.
func (s *Store) findForeign(ctx context.Context, master redis.Cmdable, report func(Foreign)) error {
	pattern := s.Room("*", keys.Users)
	for cursor := uint64(0); ; {
		found, next, err := master.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		types, err := master.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range found {
				p.Type(ctx, key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, key := range found {
			if kind := types[i].(*redis.StatusCmd).Val(); kind != "hash" && kind != "none" {
				report(Foreign{key, kind, s.RoomOf(key, keys.Users)})
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
