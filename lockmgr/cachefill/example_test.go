package cachefill_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/cachefill"
	"roomd/lockmgr/redisconn/embedded"
)

// open stands for your own client, lock manager and cache.
func open(opts cachefill.Options) (*cachefill.Cache, func()) {
	server := embedded.Start()
	client := redis.NewClient(server.Options())
	locks, err := lockmgr.New(client, lockmgr.Options{})
	if err != nil {
		panic(err)
	}
	cache, err := cachefill.New(locks, opts)
	if err != nil {
		panic(err)
	}
	return cache, func() { cache.Close(); locks.Close(); client.Close(); server.Close() }
}

// A hundred requests at once ask the database once.
func Example() {
	cache, done := open(cachefill.Options{Fresh: time.Minute})
	defer done()

	queries := 0
	readLobby := func(context.Context) ([]byte, error) {
		queries++
		return []byte(`["42","43"]`), nil
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if _, err := cache.Get(context.Background(), "lobby", readLobby); err != nil {
				fmt.Println(err)
			}
		})
	}
	wg.Wait()
	lobby, err := cache.Get(context.Background(), "lobby", readLobby)
	fmt.Println(string(lobby), err)
	fmt.Println("queries:", queries)
	// Output:
	// ["42","43"] <nil>
	// queries: 1
}

// An old value is better than a wait: it is returned at once while a new one is
// loaded.
func ExampleOptions_stale() {
	refreshed := make(chan struct{})
	cache, done := open(cachefill.Options{Fresh: time.Millisecond, Stale: time.Hour})
	defer done()

	ctx, n := context.Background(), 0
	load := func(context.Context) ([]byte, error) {
		n++
		if n == 2 {
			defer close(refreshed)
		}
		return fmt.Appendf(nil, "version %d", n), nil
	}
	cache.Get(ctx, "news", load)
	time.Sleep(10 * time.Millisecond)
	old, _ := cache.Get(ctx, "news", load)
	<-refreshed
	fmt.Println(string(old))
	// Output: version 1
}

// An error is not cached, and its text reaches the other processes that wait.
func ExampleCache_Get() {
	cache, done := open(cachefill.Options{})
	defer done()

	ctx := context.Background()
	down := errors.New("the database is down")
	_, err := cache.Get(ctx, "lobby", func(context.Context) ([]byte, error) { return nil, down })
	fmt.Println(errors.Is(err, down), err)
	value, err := cache.Get(ctx, "lobby", func(context.Context) ([]byte, error) { return []byte("up again"), nil })
	fmt.Println(string(value), err)
	// Output:
	// true cachefill: get "lobby": the database is down
	// up again <nil>
}
