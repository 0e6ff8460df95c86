package cachefill

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
)

// A loader's request for its lock is sent twice, and so is what stores its value. The first copies
// arrive when another process has loaded a newer value: that stays, and nobody has the lock.
func TestLateCopiesOfALoadChangeNothing(t *testing.T) {
	t.Parallel()
	for _, pipelined := range []bool{false, true} {
		server := redistest.Start(t)
		plain := server.Client()
		proxy := redistest.StartProxy(t, server.Addr())
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true, ReadTimeout: 100 * time.Millisecond})
		defer client.Close()
		locks, err := lockmgr.New(client, lockmgr.Options{Pipelined: pipelined})
		redistest.OK(t, err)
		defer locks.Close()
		slow, err := New(locks, Options{LockTTL: time.Minute})
		redistest.OK(t, err)
		defer slow.Close()
		other := newNode(t, plain, Options{})
		late := proxy.HoldBack(func(args []string) bool { // of try.lua: three keys, and four arguments
			return len(args) == 10 && args[2] == "3" && args[3] == "Lock:Cache:k:Fill"
		})
		token := ""
		want(t, slow, func(ctx context.Context) ([]byte, error) {
			token = plain.Get(ctx, "Lock:Cache:k:Fill").Val()
			return []byte("older"), nil
		}, "older")
		plain.Del(t.Context(), "Cache:k") // its time is over
		want(t, other, func(context.Context) ([]byte, error) { return []byte("newer"), nil }, "newer")

		late.Deliver()
		keys := append(locks.Keys("Cache:k:Fill"), "Cache:k", "Lock:Cache:k:Fill:Failure")
		reply, err := finishScript.Run(t.Context(), plain, keys, "PUBLISH", 250, token, "value", "older", 60000).Slice()
		if err != nil || reply[0] != int64(0) {
			t.Errorf("pipelined %v: the late copy was answered %v, %v", pipelined, reply, err)
		}
		want(t, other, mustNotLoad, "newer")
		if holder := plain.Get(t.Context(), "Lock:Cache:k:Fill").Val(); holder != "" {
			t.Errorf("pipelined %v: the lock holds %q", pipelined, holder)
		}
	}
}
