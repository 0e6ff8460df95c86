package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestClusterSlots(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	client := c.Client()
	owners := make(map[string]int)
	for i := range 50 {
		key := fmt.Sprintf("key:%d", i)
		OK(t, client.Set(t.Context(), key, i, 0).Err())
		n, err := client.Get(t.Context(), key).Int()
		FatalIf(t, n != i || err != nil, "%s is %d, %v", key, n, err)
		if n := c.Owner(key).Client().Exists(t.Context(), key).Val(); n != 1 {
			t.Fatalf("%s is not where its owner is", key)
		}
		owners[c.Owner(key).Addr()]++
	}
	FatalIf(t, len(owners) != len(c.Addrs()), "50 keys went to %v", owners)

	c.Node(0).Kill()
	c.Node(0).Restart()
	c.WaitReady()
	err := client.Set(t.Context(), "key:0", 1, 0).Err()
	FatalIf(t, err != nil, "after a restart: %v", err)
}

func TestClusterMove(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	client, seen := redirects(t, c)
	const here, there = "{room}:here", "{room}:there"
	set := func(key string) {
		t.Helper()
		OK(t, client.Set(t.Context(), key, "v", 0).Err())
	}
	set(here)
	from := c.Owner(here)
	seen(t)
	// A client that has not met ASK: that may make it ask which server has which slots.
	other, otherSaw := redirects(t, c)
	OK(t, other.Get(t.Context(), here).Err())

	c.BeginMove(here)
	set(here)
	seen(t)
	set(there)
	seen(t, "ASK")
	FatalIf(t, c.Owner(here) != from, "the owner changed before the move was finished")

	c.MoveKeys(here)
	v, err := client.Get(t.Context(), here).Result()
	FatalIf(t, v != "v" || err != nil, "got %q, %v", v, err)
	seen(t, "ASK")

	c.FinishMove(here)
	otherSaw(t)
	if v, err := other.Get(t.Context(), there).Result(); v != "v" || err != nil {
		t.Fatalf("got %q, %v", v, err)
	}
	otherSaw(t, "MOVED")
	FatalIf(t, c.Owner(here) == from, "the owner is the same after the move")

	c.Move(here)
	if v, err := client.Get(t.Context(), here).Result(); v != "v" || err != nil {
		t.Fatalf("after one more move: got %q, %v", v, err)
	}
}

// A replica has what its master has. The master dies, its replica takes over, and the master comes back
// as a replica.
func TestClusterReplica(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	client := c.Client()
	key := "key:0"
	for i := 1; c.Owner(key) != c.Node(0); i++ {
		key = fmt.Sprintf("key:%d", i)
	}
	replica := c.AddReplica(0)
	OK(t, client.Set(t.Context(), key, "v", 0).Err())
	copied := replica.Client()
	waitFor(t, "the replica to have what its master has", func(ctx context.Context) error {
		if n, err := copied.DBSize(ctx).Result(); n != 1 {
			return fmt.Errorf("it has %d keys (%v)", n, err)
		}
		return nil
	})
	Thorough(t)
	c.Node(0).Kill()
	waitFor(t, "the replica to take over", func(ctx context.Context) error {
		v, err := client.Get(ctx, key).Result()
		FatalIf(t, err == nil && v != "v", "the replica has %q", v)
		return err
	})
	c.Node(0).Restart()
	c.WaitReady()
}

// redirects returns a client and a function that fails the test unless the client
// has met just these redirections since its last call.
func redirects(t *testing.T, c *Cluster) (*redis.ClusterClient, func(t *testing.T, want ...string)) {
	r := &redirectHook{}
	client := c.Client()
	client.OnNewNode(func(node *redis.Client) { node.AddHook(r) })
	return client, func(t *testing.T, want ...string) {
		t.Helper()
		r.mu.Lock()
		defer r.mu.Unlock()
		FatalIf(t, !slices.Equal(r.met, want), "the client met %q, want %q", r.met, want)
		r.met = nil
	}
}

type redirectHook struct {
	Hook
	mu  sync.Mutex
	met []string // guarded by mu
}

func (r *redirectHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil {
			code, _, _ := strings.Cut(err.Error(), " ")
			r.mu.Lock()
			defer r.mu.Unlock()
			r.met = append(r.met, code)
		}
		return err
	}
}
