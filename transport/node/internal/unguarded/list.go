package unguarded

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
)

const (
	lifetime = time.Minute // of a list in Redis
	maxLists = 32          // lists not yet expired
)

// lists stores each room's users as the article does, as one string in Redis. That it is JSON is our choice.
type lists struct {
	client redis.UniversalClient
	prefix string // of the keys

	mu      sync.Mutex
	expires map[string]time.Time // guarded by mu: when a list expires in Redis
}

func (l *lists) key(id string) string { return l.prefix + "Lobby:Unguarded:" + id }

var (
	errFull    = errors.New("the list is full")
	errTooMany = errors.New("too many lists are in use; wait a minute")
)

// admit counts a list that is about to be written. It returns errTooMany if maxLists others have not expired.
func (l *lists) admit(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for id, at := range l.expires {
		if now.After(at) {
			delete(l.expires, id)
		}
	}
	if _, known := l.expires[id]; !known && len(l.expires) >= maxLists {
		return errTooMany
	}
	l.expires[id] = now.Add(lifetime)
	return nil
}

func (l *lists) read(ctx context.Context, id string) ([]string, error) {
	text, err := l.client.Get(ctx, l.key(id)).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var users []string
	err = json.Unmarshal([]byte(text), &users)
	return users, err
}

// join does all three steps: GET the list, append the user, SET it. On purpose nothing prevents others from doing the
// same at once; gap is an extra wait before the SET. It returns the seat that the user believes to have, or errFull.
func (l *lists) join(ctx context.Context, id, user string, capacity int, gap time.Duration) (seat int, err error) {
	if err := l.admit(id); err != nil {
		return 0, err
	}
	users, err := l.read(ctx, id)
	if err != nil {
		return 0, err
	}
	if len(users) >= capacity {
		return 0, errFull
	}
	if gap > 0 {
		if err := pause.For(ctx, gap); err != nil {
			return 0, err
		}
	}
	text, err := json.Marshal(append(users, user))
	if err != nil {
		return 0, err
	}
	return len(users), l.client.Set(ctx, l.key(id), text, lifetime).Err()
}
