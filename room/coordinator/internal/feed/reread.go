package feed

import (
	"context"
	"errors"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
)

const (
	// rereadPause is the pause before another attempt to read a snapshot, foreignPause the same if the room's keys
	// hold something that is not roomd's.
	rereadPause  = 100 * time.Millisecond
	foreignPause = 5 * time.Second

	rereadTimeout = 3 * time.Second
)

// sync reads the requested snapshots, one at a time from each server, so that a server which hangs delays only its
// own rooms.
func (fs *Feeds) sync() {
	for {
		select {
		case <-fs.life.Done():
			return
		case <-fs.read:
		}
		fs.mu.Lock()
		behind := fs.behind
		fs.behind = nil
		fs.mu.Unlock()
		servers := make(map[string][]*feed)
		for _, f := range behind {
			at := fs.store.MasterOf(fs.life, f.id)
			servers[at] = append(servers[at], f)
		}
		for _, behind := range servers {
			fs.wg.Go(func() {
				for _, f := range behind {
					fs.reread(f)
				}
			})
		}
	}
}

// reread reads a snapshot for a feed, or schedules another attempt.
func (fs *Feeds) reread(f *feed) {
	ctx, cancel := context.WithTimeout(fs.life, rereadTimeout)
	defer cancel()
	f.asks()
	r, err := fs.store.Load(ctx, f.id)
	switch {
	case err == nil:
		known, _ := f.position()
		if known.Gone(r.Position) {
			fs.wg.Go(func() { fs.repairs.Lost(fs.life, r) })
		}
		if r.Renewed() || f.hasLost(r) {
			// Nobody may see the room in an epoch that has lost commits.
			epoch := r.Epoch
			fs.wg.Go(func() {
				if fs.repairs.Renew(fs.life, f.id, epoch) != nil {
					_ = pause.For(fs.life, rereadPause)
				}
				fs.sawGap(f, fs.has(f))
			})
			return
		}
		if fs.resynced != nil {
			fs.resynced()
		}
		gap, stale := f.resume(r, fs.repairs.KeptNames())
		if stale {
			fs.logs.over.Happened(nil, "room", f.id)
		}
		fs.sawGap(f, gap)
	case errors.Is(err, room.ErrForeign): // only an operator can help; other feeds do not wait
		fs.logs.snapshots.Happened(err, "room", f.id)
		fs.wg.Go(func() {
			_ = pause.For(fs.life, foreignPause)
			fs.sawGap(f, fs.has(f))
		})
	case fs.life.Err() == nil:
		fs.logs.snapshots.Happened(err, "room", f.id)
		_ = pause.For(fs.life, rereadPause)
		fs.sawGap(f, true)
	}
}

// At returns the position that the watchers of a room here know; zero if they know none, or need a snapshot.
func (fs *Feeds) At(id string) room.Position {
	f := fs.of(id)
	if f == nil {
		return room.Position{}
	}
	at, syncing := f.position()
	if syncing {
		return room.Position{}
	}
	return at
}

// Compare requests a snapshot if Redis has lost commits. now is the room as read, known its watchers' position before
// the read. Without the snapshot they would learn of the loss only from the next commit, and perhaps nobody would
// restore the room. That an empty room is gone from Redis is no news.
func (fs *Feeds) Compare(known room.Position, now *room.Room) {
	f := fs.of(now.ID)
	if f != nil && (now.Renewed() || f.hasLost(now) || now.Epoch != "" && known.Gone(now.Position)) {
		fs.sawGap(f, f.interrupt())
	}
}
