package lockmgr_test

import (
	"context"
	"fmt"
	"time"

	"roomd/lockmgr"
)

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
