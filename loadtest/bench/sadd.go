package bench

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// fillChunk is how many users one command adds when it fills a room.
const fillChunk = 1000

// sadd asks the least of Redis: one command on a set, without a lock.
type sadd struct{ rdb *redis.Client }

func openSadd(_ context.Context, t target) (node, error) { return &sadd{t.client()}, nil }

func (s *sadd) join(ctx context.Context, room, user string) error {
	return s.rdb.SAdd(ctx, usersKey(room), user).Err()
}

func (s *sadd) leave(ctx context.Context, room, user string) error {
	return s.rdb.SRem(ctx, usersKey(room), user).Err()
}

func (s *sadd) fill(ctx context.Context, room string, users []string) error {
	for chunk := range slices.Chunk(users, fillChunk) {
		members := make([]any, len(chunk))
		for i, user := range chunk {
			members[i] = user
		}
		if err := s.rdb.SAdd(ctx, usersKey(room), members...).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (s *sadd) close() { _ = s.rdb.Close() }

func saddMembers(ctx context.Context, rdb *redis.Client, room string) ([]string, error) {
	return rdb.SMembers(ctx, usersKey(room)).Result()
}
