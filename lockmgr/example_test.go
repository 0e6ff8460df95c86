package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// A transfer needs both accounts. Another one the other way round cannot end up
// waiting for this one while this one waits for it.
func ExampleManager_AcquireAll() {
	client, closeClient := exampleClient()
	defer closeClient()
	ctx := context.Background()

	locks, _ := lockmgr.New(client, lockmgr.Options{})
	defer locks.Close()
	both, err := locks.AcquireAll(ctx, "account-7", "account-3")
	if err != nil {
		fmt.Println(err)
		return
	}
	for lock := range both.Each() {
		fmt.Println("held:", lock.Name())
	}
	fmt.Println("released:", both.Release(ctx) == nil)
	// Output:
	// held: account-3
	// held: account-7
	// released: true
}

// The first node does the work; the others see it done, or time out.
func ExampleManager_AcquireOrWait() {
	client, closeClient := exampleClient()
	defer closeClient()
	ctx := context.Background()

	locks, _ := lockmgr.New(client, lockmgr.Options{})
	defer locks.Close()
	outcome, lock, _ := locks.AcquireOrWait(ctx, "report", lockmgr.WaitOptions{})
	fmt.Println("first:", outcome)

	outcome, _, _ = locks.AcquireOrWait(ctx, "report", lockmgr.WaitOptions{Wait: 10 * time.Millisecond})
	fmt.Println("in a hurry:", outcome)

	time.AfterFunc(200*time.Millisecond, func() { lock.Release(ctx) }) // the work is done
	outcome, _, _ = locks.AcquireOrWait(ctx, "report", lockmgr.WaitOptions{})
	fmt.Println("patient:", outcome)
	// Output:
	// first: acquired
	// in a hurry: timed out
	// patient: ended
}
