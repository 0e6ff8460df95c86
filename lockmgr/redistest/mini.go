package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
)

// Mini returns an in-process Redis and a client of it, both closed with the test. Keys expire
// by the clock of time.Now: in a synctest bubble an hour of TTL passes in no time.
func Mini(tb testing.TB) (*embedded.Redis, *redis.Client) {
	tb.Helper()
	r := embedded.Start()
	tb.Cleanup(r.Close)
	return r, MiniClient(tb, r)
}

// MiniClient returns another client of r, closed with the test.
func MiniClient(tb testing.TB, r *embedded.Redis) *redis.Client {
	return newClient(tb, r.Options())
}
