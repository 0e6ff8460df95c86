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
// For more control acquire a [Lock] with [Manager.Acquire], which waits, or with [Manager.TryAcquire], which does
// not, and release it with [Lock.Release]. [Manager.AcquireAll] acquires several locks without deadlock.
// [Manager.AcquireOrWait] waits for somebody else's work instead of repeating it; package cachefill is built on it.
// [Manager.AcquireWith] and [Manager.DoWith] have options for one call, such as how long to wait. [NewScript] makes
// scripts that check the lock in the same step as their write. A [Slot] is for a process whose scripts also acquire
// and release the lock.
//
// # What it promises
//
//   - A key holds at most one token at any moment, and only the Lock with that
//     token can extend or release it. Scripts compare the whole token.
//   - First come, first served: within each process, and between the processes that wait, in the order of the queue
//     in Redis. A released lock goes straight to the next waiter. Each process has one token in the queue of each
//     lock; while the process holds the lock itself, its next waiter enters the queue within a poll.
//   - If the next waiter has died, the others wait one claim (250 ms) longer. If a wake-up is lost, they wait half a
//     claim longer, or one poll (5 ms) while the process cannot subscribe to wake-ups.
//   - The client may send every request twice, and each copy may arrive at any time; the effect is that of one. No
//     holder is locked out by its own lock, no lock is left behind, none is released twice. A copy never gives a
//     token the lock again after its hold, so a late copy of a script that checks the token is refused. For this,
//     each sending of a request for the lock has a token of its own; see lock_inherit and lock_bury in lua/lock.lua.
//     A request that arrives more than ten minutes late could acquire a free lock for one TTL, or a position in the
//     queue that costs the others one claim; nobody uses such a hold.
//   - An Acquire that gives up leaves neither a lock nor a position in the queue, as long as Redis answers. The
//     clean-up may go on for a moment after Acquire has returned; [Manager.Close] waits for it.
//   - A Lock that is returned is held: lockmgr does not accept a reply or a wake-up that was under way for too long.
//   - A wake-up tells a waiter that it has the lock. The waiter goes to work without asking Redis, so a hold that
//     was waited for costs one request. The waiter trusts the hold for the claim in the wake-up, counted by its own
//     clock from its last request that Redis answered with "wait". So this trust depends neither on the server's
//     clock nor on this process's Options. If less than three round trips are left, the waiter asks first.
//   - [Lock.Deadline] is the moment up to which the hold can be trusted. It is measured on the local monotonic clock
//     from before the request was sent, so it lies before the expiry in Redis. When it passes, or somebody else
//     turns out to have the lock, [Lock.Done] is closed and [Lock.Err] gives the reason. [Lock.Release] ends the
//     hold at once, whether or not Redis answers.
//   - [Lock.Fence] grows from hold to hold. It is the server's time in microseconds, so it also
//     grows when Redis loses its data. If that clock steps back, the fence is one more than the
//     last one, which Redis keeps for ten minutes after each hold. A fence can be lower than an
//     earlier one only after a step back by more than ten minutes, or by less if Redis has lost
//     that key as well: by no more than the step, until the clock has caught up.
//   - At maxmemory a holder can still release its lock, and hand it to a waiter.
//     No key stays for ever: the last one of an idle lock expires after ten minutes.
//   - Calls end with their contexts, at most a quarter of a second later when Redis does
//     not answer, if the client has ContextTimeoutEnabled. This does not depend on the number of
//     locks. The clean-up goes on without the caller.
//   - It works on a single Redis, Sentinel, and Cluster (each lock in one slot, also while the slot moves).
//
// # What it does not promise
//
//   - A holder that is stalled past its deadline does not know that somebody else holds the lock now. The store must
//     refuse its later writes: check the token in the same step as the write ([NewScript]), or the fence. (Martin
//     Kleppmann, "How to do distributed locking", 2016.)
//   - Redis replicates asynchronously. After a failover two may hold a lock until one deadline passes. A store that
//     checks tokens in the same Redis is safe; so is one that checks fences, unless the new primary's clock is
//     behind. The same happens where Redis evicts the key of a hold: set maxmemory-policy noeviction.
//   - The key expires by the clock of Redis. A clock that jumps forward there ends holds early, and their holders do
//     not know. A clock that steps back keeps the lock of a dead holder longer, by the step.
//   - The local monotonic clock stands still while a machine is suspended, so a holder that wakes up trusts its hold
//     until its next extension. A store that checks the token or the fence refuses its writes.
//   - Locks are not reentrant. A caller that holds a lock and acquires it again, also in a
//     function that Do runs, waits for itself.
//   - A Redis that executes a request but answers neither the request nor the clean-up keeps the
//     lock for one TTL, or a position in the queue that costs the others one claim.
//   - A failover or a restart from an old copy may bring back an ended hold, for the rest of its TTL, and forget
//     which tokens are buried. Until then Redis executes a late copy of a script of that hold.
//   - A proxy between the client and Redis that repeats a request with its token may give that
//     token the lock again after its hold, for one TTL. The holder does not use that hold, but
//     Redis executes a late copy of a script that checks the token.
//   - A process that waits while another program has the lock, or that cannot subscribe to wake-ups, asks once per
//     Options.Poll, some 200 times a second by default, for as long as it waits. While a process with lockmgr has
//     the lock it asks 8 times a second, by three requests each.
//   - Within one hold, Redis may execute a script that the client sent twice a second time,
//     after later scripts of the same hold. Put all writes of a hold into one script, or let
//     the script check what is stored before it writes.
//   - Processes may differ in their Options. Then a dead waiter costs the claim of the
//     process that handed the lock to it, and a dead holder its own TTL.
//   - If the ACL keeps a user of Redis from the wake-up channels (&Lock:*), its waiters learn by polling that they
//     have the lock. If only the holder lacks the right, that takes half a claim.
//
// # Sources
//
// The single-instance lock of the Redis documentation ("Distributed Locks with Redis"). The queue
// with direct handoff: Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory
// Multiprocessors" (1990); a local line before the shared queue: Dice, Marathe and Shavit, lock
// cohorting (2012), with cohorts of one. Fences: Burrows, "The Chubby lock service" (2006).
//
// # Goroutines
//
// [Manager.Do] and [Lock.Context] have one each, until the hold or the context ends. Otherwise there are none while
// Redis answers and nobody waits for a lock. With Options.Pipelined, the client's pipeline has some, which end with
// the client. The first wait for a lock starts three, for the pub/sub connection of the wake-ups (see package
// pubsub); they end with [Manager.Close]. A watchdog has goroutines only while it extends. A request has one of its
// own when Redis is slow, or when it shares a round trip, and so has the clean-up after an Acquire that gave up.
//
// # Where things are
//
// Every rule of the lock is in lua/lock.lua. acquire.go: a call that waits. line.go: the waiters of this process.
// slot.go and wait.go: a token that asks, waits and gives up. wakeups.go: its wake-ups. lock.go, extend.go and
// release.go: a hold. send.go: a request. names.go: keys and tokens, also of requests that are sent twice.
package lockmgr
