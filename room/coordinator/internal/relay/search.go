package relay

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redisconn/pause"
	"roomd/room/coordinator/internal/keys"
)

const (
	// searchEvery is the time between two searches of all nodes together.
	searchEvery = 10 * time.Second

	scanCount = 1000 // rooms of the feed read per request
	scanShare = 10   // a search uses at most 1/scanShare of Redis' time
)

// searchLoop compares the feed with all journals now and then: a node may have died after a commit, and Redis may
// have lost the end of the feed.
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

// search schedules for copying the rooms whose journals have more than the feed, and drops the places of rooms without
// a journal.
func (r *Relay) search(ctx context.Context) error {
	found := make(map[string]bool)
	err := redisconn.Scan(ctx, r.store.Client, r.store.Room("*", keys.Log), scanShare-1,
		func(ctx context.Context, logs []string) error {
			return r.compare(ctx, logs, found)
		})
	if err != nil {
		return err
	}
	return r.forget(ctx, found)
}

// compare schedules for copying the rooms whose journals (logs) do not end at their places. It adds all to found.
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
	r.Committed(missing...)
	return nil
}

// forget drops the places of rooms that are not in found and have no journal.
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
			// Read the place first: if the journal is created afterwards, the room gets another place, and append
			// refuses this one.
			known, err := r.places(ctx, []string{id})
			if err == nil {
				var there int64
				if there, err = r.store.Client.Exists(ctx, r.store.Room(id, keys.Log)).Result(); there == 0 &&
					err == nil {
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
