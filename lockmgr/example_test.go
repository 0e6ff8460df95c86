package lockmgr_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/embedded"
)

// exampleClient stands for your own redis.NewClient.
func exampleClient() (*redis.Client, func()) {
	server := embedded.Start()
	opts := server.Options()
	opts.ContextTimeoutEnabled = true
	client := redis.NewClient(opts)
	return client, func() { client.Close(); server.Close() }
}

func Example() {
	client, closeClient := exampleClient()
	defer closeClient()
	ctx := context.Background()

	locks, err := lockmgr.New(client, lockmgr.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	lock, err := locks.Acquire(ctx, "invoice-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locks.TryAcquire(ctx, "invoice-7")
	fmt.Println("held by another:", errors.Is(err, lockmgr.ErrHeld))
	fmt.Println("released:", lock.Release(ctx) == nil)
	// Output:
	// held by another: true
	// released: true
}

// A write that checks the token in the same step: a holder that was stalled past
// its TTL changes nothing.
func ExampleNewScript() {
	client, closeClient := exampleClient()
	defer closeClient()
	ctx := context.Background()

	write := lockmgr.NewScript(`
		if not lock_holds(1, ARGV[3]) then return 'refused' end
		redis.call('SET', KEYS[4], ARGV[4])
		lock_release(1)
		return 'written'`)

	locks, _ := lockmgr.New(client, lockmgr.Options{})
	defer locks.Close()
	lock, _ := locks.Acquire(ctx, "score")
	for range 2 { // the second time the lock has been released
		fmt.Println(locks.Run(ctx, write, "score", []string{"score"}, lock.Token(), 21).Val())
	}
	lock.Released()
	// Output:
	// written
	// refused
}
