package chaos

import (
	"context"
	"strings"
	"time"

	"roomd/lockmgr/redisconn/pause"
)

const (
	lookTimeout = time.Second
	emptyWithin = eviction + grace + 10*time.Second
)

// sample is the state at a moment.
type sample struct {
	at      time.Duration
	ghosts  int // members whose player is gone; -1: Redis did not say
	members int
}

// watch samples until ctx ends.
func (r *run) watch(ctx context.Context) {
	for ctx.Err() == nil {
		s := r.sample(ctx)
		r.mu.Lock()
		if s.ghosts < 0 && len(r.samples) > 0 {
			s.ghosts, s.members = r.samples[len(r.samples)-1].ghosts, r.samples[len(r.samples)-1].members
		}
		r.samples = append(r.samples, s)
		r.mu.Unlock()
		r.tell(false)
		_ = pause.For(ctx, sampleEvery)
	}
}

// sample looks who is in the rooms.
func (r *run) sample(ctx context.Context) sample {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	living, s := r.Living(), sample{at: r.History.Now()}
	for _, room := range r.AllRooms() {
		users, err := r.data.Client.HKeys(ctx, r.data.Key(room, "Users")).Result()
		if err != nil {
			s.ghosts = -1
			return s
		}
		s.members += len(users)
		for _, user := range users {
			if !living[user] && !strings.HasPrefix(user, "guest ") {
				s.ghosts++
			}
		}
	}
	return s
}
