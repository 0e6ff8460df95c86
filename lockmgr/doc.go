// Package lockmgr is a lock in Redis: fair across processes, safe when replies are
// lost, loud when it is lost itself, and fenced.
//
// Start with [New] and [Manager.Do]:
//
//	locks, err := lockmgr.New(client, lockmgr.Options{})
//	...
//	defer locks.Close()
//	err = locks.Do(ctx, "invoice-7", func(ctx context.Context) error {
//		... // ctx is cancelled if the lock is lost
//	})
//
// For more control take a [Lock] with [Manager.Acquire] (waits its turn) or
// [Manager.TryAcquire] (does not wait), and give it back with [Lock.Release].
// [Manager.AcquireAll] takes several without deadlock. [Manager.AcquireOrVanish]
// waits for somebody else's work instead of doing it again; package cachefill
// builds on that.
//
// # What it promises
//
//   - At any moment a key holds at most one token, and only the Lock with that
//     token can extend it or give it back. The whole token is compared, never a
//     prefix.
//   - First come, first served between the processes that wait, by a count that
//     Redis keeps, and within each process. A released lock goes straight to whose turn
//     it is. Each process has one token in the queue for each lock; while it holds
//     the lock itself, its next waiter takes its place there within a poll.
//   - A waiter that has died costs the others one claim (250 ms), a wake-up that
//     was lost one poll (5 ms).
//   - Every operation may be sent twice (a client sends a command again when the
//     reply was lost) and has the effect of being sent once. A holder is never
//     locked out by its own lock, no lock is left behind, none is released twice.
//   - An Acquire that gives up leaves neither a lock nor a place in the queue.
//   - Whoever is handed the lock by another process learns it from the wake-up, and
//     goes to work without asking Redis: a hold that was waited for costs one
//     request. For when the claim began it trusts the server's clock, as seen in
//     an earlier reply, so that a wake-up that comes late is not taken for a hold.
//   - A lock that nobody else wants costs two round trips: three plain commands to
//     take it, and a script of three lines to give it back.
//   - [Lock.Deadline] is the moment up to which the hold can be trusted. It is
//     measured on the local monotonic clock from before the request was sent, so
//     it lies before the expiry in Redis. When it passes, or the lock turns out to
//     be somebody else's, [Lock.Done] is closed and [Lock.Err] says how.
//   - [Lock.Fence] grows from hold to hold. No key stays for ever: the last one of
//     an idle lock goes after ten minutes.
//   - Works on a single Redis, Sentinel, and Cluster (each lock in one slot, also
//     while the slot moves).
//
// # What it does not promise
//
//   - A holder that is stalled past its deadline does not know that somebody else
//     holds the lock now. What it then writes must be refused by the store: check
//     the token in the same step as the write ([Lua]), or the fence. (Martin
//     Kleppmann, "How to do distributed locking", 2016.)
//   - Redis replicates asynchronously. After a failover the new primary may not
//     know a lock that the old one had given out a moment before, and two may hold
//     it until one deadline passes. A store that checks tokens in the same Redis
//     is not hurt by that; one that checks fences is not either.
//   - The key expires by the clock of Redis. A clock that jumps forward there
//     ends holds early, and may have a hold that was just handed over overrated by
//     as long as its wake-up was under way. Fences survive a clock that steps back,
//     unless it does so by more than ten minutes.
//   - A network that delivers a request late, after its caller has given up and
//     cleaned up, can leave the lock taken for one TTL.
//
// # Sources
//
// The single-instance lock of the Redis documentation ("Distributed Locks with
// Redis": SET NX PX with a random value, released by a script that compares it).
// The queue with direct handoff is that of fair locks: Anderson, "The Performance
// of Spin Lock Alternatives for Shared-Memory Multiprocessors" (1990); a local
// line before the shared queue is lock cohorting: Dice, Marathe and Shavit (2012),
// with cohorts of one. Fencing numbers: Burrows, "The Chubby lock service" (2006),
// where they are called sequencers.
//
// # Goroutines
//
// None as long as no lock has to be waited for. From then on three, for the pub/sub
// connection of the wake-ups (see package pubsub), until [Manager.Close]. A
// watchdog has a goroutine only while it extends, and the clean-up after an
// Acquire that gave up while it lasts.
package lockmgr
