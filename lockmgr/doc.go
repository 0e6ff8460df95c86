// Package lockmgr is a lock in Redis: fair across processes, safe when replies are
// lost, loud when it is lost itself, and fenced.
//
// Start with [New] and [Manager.Do]:
//
//	locks, err := lockmgr.New(client, lockmgr.Options{})
//	...
//	defer locks.Close()
//	err = locks.Do(ctx, "invoice-7", func(ctx context.Context, lock *lockmgr.Lock) error {
//		... // ctx is cancelled if the lock is lost; lock has the fence and the token
//	})
//
// For more control take a [Lock] with [Manager.Acquire], which waits, or
// [Manager.TryAcquire], which does not, and give it back with [Lock.Release].
// [Manager.AcquireAll] takes several without deadlock. [Manager.AcquireOrWait] waits for
// somebody else's work instead of doing it again; package cachefill builds on that.
// [NewScript] makes scripts that check the lock in the same step as their write, and
// [Slot] is for processes whose scripts take the lock and give it back, too.
//
// # What it promises
//
//   - At any moment a key holds at most one token, and only the Lock with that
//     token can extend it or give it back. Scripts compare the whole token.
//   - First come, first served between the processes that wait, by a count that
//     Redis keeps, and within each process. A released lock goes straight to the next
//     waiter. Each process has one token in the queue for each lock; while it holds
//     the lock itself, its next waiter takes its place there within a poll.
//   - If the next waiter has died, the others wait one claim (250 ms) longer; if a wake-up
//     is lost, one poll (5 ms).
//   - The client may send every request twice, as it does when a reply was lost; the effect
//     is that of one. No holder is locked out by its own lock, no lock is left behind, none
//     is released twice.
//   - An Acquire that gives up leaves neither a lock nor a place in the queue, as long as
//     Redis answers. Its clean-up comes after the request that may still be on its way, also
//     where that waits in a pipeline, or unread in a connection. It may go on for a moment
//     after Acquire has returned; [Manager.Close] waits for it.
//   - A Lock that is returned is held: lockmgr does not take a reply or a wake-up that was
//     under way for too long for a hold.
//   - A waiter learns from the wake-up that another process has handed it the lock, and
//     goes to work without asking Redis: a hold that was waited for costs one request. The
//     waiter trusts the hold from when it last asked and was told to wait, by its own clock,
//     for the claim that the wake-up names. So neither the server's clock nor other Options
//     in another process lead to two holders. If that leaves less than three round trips, the
//     waiter asks first.
//   - [Lock.Deadline] is the moment up to which the hold can be trusted. It is measured on
//     the local monotonic clock from before the request was sent, so it lies before the
//     expiry in Redis. When it passes, or somebody else turns out to have the lock,
//     [Lock.Done] is closed and [Lock.Err] says how. [Lock.Release] ends the hold at once,
//     whether or not Redis answers.
//   - [Lock.Fence] grows from hold to hold. It is the server's time in microseconds, so it
//     also grows when Redis restarts from an old snapshot, when a replica that is behind
//     takes over, and when the key is lost, as long as the clock does not step back. Where the
//     clock does, the fence is one more than the last one, which Redis keeps for ten minutes
//     after each hold. So a step back of up to ten minutes does no harm by itself, nor does a
//     larger one while the lock is in use. Only if Redis loses that key at the same time (a
//     restart, or a failover to a server whose clock is behind), or nobody used the lock for
//     longer than that by Redis' clock, can fences be lower than earlier ones: by no more than
//     the step, and until the clock has caught up.
//   - At maxmemory a holder can still give its lock back, and a waiter can still be handed
//     one. No key stays for ever: the last one of an idle lock goes after ten minutes.
//   - Calls end with their contexts, at most a quarter of a second later when Redis does
//     not answer, if the client has ContextTimeoutEnabled.
//   - It works on a single Redis, Sentinel, and Cluster (each lock in one slot, also
//     while the slot moves).
//
// # What it does not promise
//
//   - A holder that is stalled past its deadline does not know that somebody else
//     holds the lock now. The store must refuse what it then writes: check
//     the token in the same step as the write ([NewScript]), or the fence. (Martin
//     Kleppmann, "How to do distributed locking", 2016.)
//   - Redis replicates asynchronously. After a failover the new primary may not
//     know a lock that the old one had given out a moment before, and two may hold
//     it until one deadline passes. A store that checks tokens in the same Redis
//     is not hurt by that; nor is one that checks fences, unless the new primary's
//     clock is behind.
//   - The key expires by the clock of Redis. A clock that jumps forward there
//     ends holds early, and their holders do not know; a store that checks is safe. One
//     that steps back keeps the lock of a dead holder for longer, by as much.
//   - Redis must not evict keys (maxmemory-policy noeviction): where it evicts the key of
//     a hold, two may hold the lock, as after a failover.
//   - Locks are not reentrant. A caller that holds a lock and acquires it again, also in a
//     function that Do runs, waits for itself.
//   - A network that delivers a request after its caller has given up and cleaned up, or
//     a Redis that answers neither, can leave the lock taken for one TTL, or a place in the
//     queue that costs the others one claim.
//   - Processes may differ in their Options. Then a dead waiter costs the claim of the
//     process that gave the lock to it, and a dead holder its own TTL.
//   - If the ACL keeps a user of Redis from the wake-up channels (&Lock:*), its waiters find
//     out by polling that they have the lock.
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
// None as long as no lock has to be waited for and Redis answers; with Options.Pipelined,
// those of the client's pipeline, which end with the client. From then on three, for
// the pub/sub connection of the wake-ups (see package pubsub), until [Manager.Close]. A
// watchdog has goroutines only while it extends. A request has one of its own when Redis
// is slow, or when it shares a round trip, and so has the clean-up after an Acquire that
// gave up.
//
// # Where things are
//
// Every rule of the lock is in lua/lock.lua. acquire.go is a call that waits; line.go, who
// waits in this process; slot.go, a token and how it asks; wait.go, how it waits; leave.go,
// how it gives up; wakeups.go, how it hears that it has the lock; send.go and pipeline.go,
// how requests are sent; lock.go, lifespan.go, extend.go and release.go, a hold.
package lockmgr
