package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
)

const (
	articleTTL  = 3 * time.Second
	articlePoll = 5 * time.Millisecond

	// releaseTimeout bounds the release after an action that was cut off.
	releaseTimeout = time.Second
)

//go:embed lua/release.lua
var releaseLua string

var releaseScript = redis.NewScript(releaseLua)

// article is the published lock of the card game: SET NX EX 3 with the room's id and a unique id, drawn once; a
// spin of 5 ms; GET of the list; SET of the changed list, without a check of the lock; a compare-and-delete in
// Lua.
//
// These are our choices: the list is JSON, because the article does not say how its client stores it; the
// unique id is a UUID, because PHP's uniqid is the time, and may be the same for two callers; a join checks who
// is in the list, while the article's appends blindly; there is a leave; EVALSHA replaces EVAL. Package lab
// follows the article to the letter.
type article struct{ rdb *redis.Client }

func openArticle(ctx context.Context, t target) (node, error) {
	a := article{t.client()}
	return node{
		join: func(ctx context.Context, room, user string) error {
			return a.change(ctx, room, func(users []string) []string {
				if slices.Contains(users, user) {
					return users
				}
				return append(users, user)
			})
		},
		leave: func(ctx context.Context, room, user string) error {
			return a.change(ctx, room, func(users []string) []string {
				return slices.DeleteFunc(users, func(u string) bool { return u == user })
			})
		},
		close: func() { _ = a.rdb.Close() },
	}.opened(releaseScript.Load(ctx, a.rdb).Err())
}

// change runs one action under the room's lock.
func (a article) change(ctx context.Context, room string, fn func([]string) []string) (err error) {
	token := room + ":" + uuid.NewString()
	if err := a.lock(ctx, room, token); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		err = errors.Join(err, releaseScript.Run(ctx, a.rdb, []string{lockKey(room)}, token).Err())
	}()
	users, err := articleMembers(ctx, a.rdb, room)
	if err != nil {
		return err
	}
	return articleFill(ctx, a.rdb, room, fn(users))
}

func (a article) lock(ctx context.Context, room, token string) error {
	args := redis.SetArgs{Mode: "NX", TTL: articleTTL}
	for {
		err := a.rdb.SetArgs(ctx, lockKey(room), token, args).Err()
		if !errors.Is(err, redis.Nil) {
			return err
		}
		if err := pause.For(ctx, articlePoll); err != nil {
			return err
		}
	}
}

// articleFill writes the whole list.
func articleFill(ctx context.Context, rdb *redis.Client, room string, users []string) error {
	text, err := json.Marshal(users)
	if err != nil {
		return err
	}
	return rdb.Set(ctx, usersKey(room), text, 0).Err()
}

func articleMembers(ctx context.Context, rdb *redis.Client, room string) (users []string, err error) {
	text, err := rdb.Get(ctx, usersKey(room)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &users); err != nil {
		return nil, fmt.Errorf("%s: %w", usersKey(room), err)
	}
	return users, nil
}
