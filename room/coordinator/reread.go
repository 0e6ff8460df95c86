package coordinator

import (
	"context"
	"errors"
	"time"

	"roomd/lockmgr/redisconn"
)

const (
	// rereadPause is the pause before a snapshot that could not be read is tried again,
	// and foreignPause where the room's keys hold something that is not roomd's.
	rereadPause  = 100 * time.Millisecond
	foreignPause = 5 * time.Second

	// rereadTimeout is how long one attempt may take.
	rereadTimeout = 3 * time.Second
)

// sawGap asks for a snapshot for a feed, if that misses something.
func (fs *feeds) sawGap(f *feed, gap bool) {
	if !gap {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.behind = append(fs.behind, f)
	select {
	case fs.read <- struct{}{}:
	default:
	}
}

// sync reads snapshots for the feeds that miss something: one after the other from each
// server, so that a server which hangs holds up only its own.
func (fs *feeds) sync() {
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
			at := redisconn.MasterOf(fs.life, fs.store.client, fs.store.keysOf(f.id).meta)
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

// reread reads a snapshot for a feed, or asks for another attempt.
func (fs *feeds) reread(f *feed) {
	ctx, cancel := context.WithTimeout(fs.life, rereadTimeout)
	defer cancel()
	f.asks()
	r, err := fs.store.load(ctx, f.id)
	switch {
	case err == nil:
		known, _ := f.position()
		if known.Gone(r.Position) {
			fs.wg.Go(func() { fs.lost(fs.life, r) })
		}
		if r.Renewed() || known.Lost(r.Position) {
			// Its event, of a new epoch, brings everybody here up to date.
			epoch := r.Epoch
			fs.wg.Go(func() { fs.renew(fs.life, f.id, epoch) })
		}
		call(fs.trace.Resynced)
		gap, stale := f.resume(r, fs.alive())
		if stale {
			fs.episodes.over.Happened(nil, "room", f.id)
		}
		fs.sawGap(f, gap)
	case errors.Is(err, errForeign): // only an operator can help; the other feeds do not wait for that
		fs.episodes.snapshots.Happened(err, "room", f.id)
		fs.wg.Go(func() {
			_ = redisconn.Pause(fs.life, foreignPause)
			fs.sawGap(f, fs.has(f))
		})
	case fs.life.Err() == nil:
		fs.episodes.snapshots.Happened(err, "room", f.id)
		_ = redisconn.Pause(fs.life, rereadPause)
		fs.sawGap(f, true)
	}
}

// has reports whether anybody still watches by a feed.
func (fs *feeds) has(f *feed) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.rooms[f.id] == f
}
