package relay

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room/coordinator/internal/keys"
)

const (
	// searchEvery is the time between two searches, of all nodes together.
	searchEvery = 10 * time.Second

	// scanCount is how many keys a search looks at in one request, and scanShare which part of the time it may take.
	scanCount = 1000
	scanShare = 10
)

// searchLoop compares the feed with all journals now and then: a node may have died after a commit, and Redis may have lost
// the end of the feed.
func (r *Relay) searchLoop() {
	for {
		claimed, err := r.store.Client.SetNX(r.open, r.keys.Searched, 1, searchEvery).Result()
		if err == nil && claimed {
			err = r.search(r.open)
		}
		if err != nil && r.open.Err() == nil {
			r.failed.Happened(err)
		}
		if pause.For(r.open, searchEvery/5) != nil {
			return
		}
	}
}

// search finds rooms whose journals have more than the feed, and forgets those that have none any more.
func (r *Relay) search(ctx context.Context) error {
	found := make(map[string]bool)
	scan := func(ctx context.Context, master redis.Cmdable) error {
		for cursor := uint64(0); ; {
			began := time.Now()
			logs, next, err := master.Scan(ctx, cursor, r.store.Room("*", keys.Log), scanCount).Result()
			if err == nil {
				err = r.compare(ctx, logs, found)
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
			if err := pause.For(ctx, (scanShare-1)*time.Since(began)); err != nil {
				return err
			}
		}
	}
	var err error
	if client, cluster := r.store.Client.(*redis.ClusterClient); cluster {
		masters := make(chan *redis.Client, 1000)
		err = client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error { masters <- master; return nil })
		for close(masters); err == nil && len(masters) > 0; {
			err = scan(ctx, <-masters)
		}
	} else {
		err = scan(ctx, r.store.Client)
	}
	if err != nil {
		return err
	}
	return r.forget(ctx, found)
}

// compare has rooms copied whose journals end elsewhere than the feed knows. It adds all to found.
func (r *Relay) compare(ctx context.Context, logs []string, found map[string]bool) error {
	if len(logs) == 0 {
		return nil
	}
	ids := make([]string, len(logs))
	for i, key := range logs {
		ids[i] = r.store.RoomOf(key, keys.Log)
		found[ids[i]] = true
	}
	known, err := r.places(ctx, ids)
	if err != nil {
		return err
	}
	last, err := r.readAll(ctx, ids, func(p redis.Pipeliner, i int) *redis.XMessageSliceCmd {
		return p.XRevRangeN(ctx, logs[i], "+", "-", 1)
	})
	if err != nil {
		return err
	}
	var missing []string
	for i, id := range ids {
		if len(last[i]) == 1 && last[i][0].ID != parsePlace(known[i]).id {
			missing = append(missing, id)
		}
	}
	r.put(missing...)
	return nil
}

// forget forgets rooms whose journals are gone.
func (r *Relay) forget(ctx context.Context, found map[string]bool) error {
	for from := ""; ; {
		list, err := r.List(ctx, from, scanCount)
		if err != nil {
			return err
		}
		var gone []*news
		for _, id := range list.Rooms {
			if found[id] {
				continue
			}
			known, err := r.places(ctx, []string{id}) // before the journal is looked for: a later one has another place
			if err == nil {
				var there int64
				if there, err = r.store.Client.Exists(ctx, r.store.Room(id, keys.Log)).Result(); there == 0 && err == nil {
					gone = append(gone, &news{id: id, was: known[0]})
				}
			}
			if err != nil {
				return err
			}
		}
		if _, err := r.append(ctx, gone); err != nil {
			return err
		}
		if from = list.Next; from == "" {
			return nil
		}
	}
}
