package audit

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// scanCount is how many keys a server looks at for one answer.
const scanCount = 1000

// search returns the ids of rooms that have a key of that kind ("Log" or "Meta"), sorted. On a
// Cluster it asks each master.
func search(ctx context.Context, client redis.UniversalClient, pattern, kind string) ([]string, error) {
	open, end := "Room:", ":"+kind
	cluster, isCluster := client.(*redis.ClusterClient)
	if isCluster {
		open, end = "Room:{", "}:"+kind
	}
	var mu sync.Mutex
	found := make(map[string]bool) // guarded by mu: SCAN may return a key twice
	scan := func(ctx context.Context, server redis.Cmdable) error {
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			var keys []string
			var err error
			if keys, cursor, err = server.Scan(ctx, cursor, open+pattern+end, scanCount).Result(); err != nil {
				return err
			}
			mu.Lock()
			for _, key := range keys {
				found[strings.TrimSuffix(strings.TrimPrefix(key, open), end)] = true
			}
			mu.Unlock()
		}
		return nil
	}
	var err error
	if isCluster {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return scan(ctx, master) })
	} else {
		err = scan(ctx, client)
	}
	return slices.Sorted(maps.Keys(found)), err
}
