package cachefill

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// The rights that the README lists are enough for the lock, and with those of the cache for that.
func TestTheListedRightsAreEnough(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	redistest.OK(t, err)
	_, after, _ := strings.Cut(string(readme), "ACL SETUSER name on >secret ")
	rules, _, _ := strings.Cut(after, "\n\n")
	server := redistest.Start(t)
	rights := append([]string{"reset", "on", ">secret", "~Cache:*", "+hset", "+hget", "+hmget"},
		strings.Fields(rules)...)
	redistest.OK(t, server.Client().ACLSetUser(t.Context(), "user", rights...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "user", Password: "secret",
		ContextTimeoutEnabled: true})
	defer client.Close()
	c := newNode(t, client, Options{})
	want(t, c, func(context.Context) ([]byte, error) { return []byte("v"), nil }, "v")
	lock, err := c.locks.AcquireAll(t.Context(), "a", "b")
	redistest.OK(t, err)
	next := make(chan error, 2)
	for range 2 {
		go func() {
			next <- c.locks.DoWith(t.Context(), "a", lockmgr.AcquireOptions{Wait: 5 * time.Second},
				func(ctx context.Context, lock *lockmgr.Lock) error {
					return lock.Extend(ctx)
				})
		}()
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _ = c.locks.Acquire(short, "b") // leaves
	redistest.OK(t, lock.Release(t.Context()))
	for range 2 {
		redistest.OK(t, redistest.Receive(t, next, "the next holder"))
	}
	denied, err := server.Client().Do(t.Context(), "ACL", "LOG").Slice()
	redistest.OK(t, err)
	for _, entry := range denied {
		text := fmt.Sprint(entry)
		redistest.ErrorIf(t, !strings.Contains(text, "info"), "denied: %s", text)
	}
}
