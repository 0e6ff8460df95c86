// Package lockmgr is a blocking lock in Redis, held under a token unlike any
// other and given back only by its owner.
//
// Start with [New], take a lock with [Manager.Acquire] (waits) or
// [Manager.TryAcquire] (does not), and give it back with [Lock.Release]:
//
//	locks, err := lockmgr.New(client, lockmgr.Options{})
//	...
//	lock, err := locks.Acquire(ctx, "42")
//	if err != nil {
//		return err
//	}
//	defer lock.Release(context.WithoutCancel(ctx))
//
// # What it promises
//
//   - At any moment a key holds at most one token, and only the Lock with that
//     token can extend or release it. The whole token is compared, never a
//     prefix.
//   - Every operation may be sent twice (a client re-sends a command whose reply
//     was lost) and has the effect of being sent once: the same token asking
//     again has succeeded, and a holder is never locked out by its own lock.
//   - An Acquire that gives up leaves no lock behind.
//   - [Lock.Deadline] is the moment up to which the hold can be trusted. It is
//     measured on the local monotonic clock from before the request was sent, so
//     it lies before the expiry in Redis.
//
// # What it does not promise
//
//   - A holder that is stalled past its deadline does not know that somebody else
//     holds the lock now. What it then writes must be refused by the store: check
//     the token in the same step as the write. [Lua] holds the functions with
//     which a script does that in Redis. (Martin Kleppmann, "How to do
//     distributed locking", 2016.)
//   - Redis replicates asynchronously. After a failover the new primary may not
//     know a lock that the old one had given out.
//   - The key expires by the clock of Redis. A clock that jumps there moves the
//     expiry with it.
//
// The algorithm is the single-instance lock of the Redis documentation
// ("Distributed Locks with Redis": SET NX PX with a random value, release by a
// script that compares it).
//
// The package starts no goroutines.
package lockmgr
