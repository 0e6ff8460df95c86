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
// [Manager.TryAcquire], which does not, and release it with [Lock.Release].
// [Manager.AcquireAll] takes several without deadlock. [Manager.AcquireOrWait] waits for
// somebody else's work instead of doing it again; package cachefill builds on that.
// [Manager.AcquireWith] and [Manager.DoWith] take options for one call, such as how long to wait.
// [NewScript] makes scripts that check the lock in the same step as their write, and
// [Slot] is for processes whose scripts acquire the lock and release it, too.
//
// # What it promises
//
//   - At any moment a key holds at most one token, and only the Lock with that
//     token can extend or release it. Scripts compare the whole token.
//   - First come, first served between the processes that wait, by a count that
//     Redis keeps, and within each process. A released lock goes straight to the next
//     waiter. Each process has one token in the queue for each lock; while it holds
//     the lock itself, its next waiter enters the queue within a poll.
//   - If the next waiter has died, the others wait one claim (250 ms) longer; if a wake-up
//     is lost, half a claim, or one poll (5 ms) while the process cannot subscribe to wake-ups.
//   - The client may send every request twice, and each copy may arrive whenever it likes; the
//     effect is that of one. No holder is locked out by its own lock, no lock is left behind,
//     none is released twice. The client's copies never give a token the lock again after its
//     hold, so a late copy of a script that checks it is refused. For that each sending of a request for the lock has
//     a token of its own; see lock_inherit and lock_bury in lua/lock.lua. A request that arrives
//     more than ten minutes late could take a free lock for one TTL, or a position in the queue
//     that costs the others one claim; it never gets a hold in which anybody believes.
//   - An Acquire that gives up leaves neither a lock nor a position in the queue, as long as
//     Redis answers. The clean-up may go on for a moment after Acquire has returned;
//     [Manager.Close] waits for it.
//   - A Lock that is returned is held: lockmgr does not take a reply or a wake-up that was
//     under way for too long for a hold.
//   - A waiter learns from the wake-up that it has the lock, and goes to work without asking
//     Redis: a hold that was waited for costs one request. It trusts the hold from when it last
//     asked and was told to wait, by its own clock, for the claim that the wake-up names. So
//     this trust depends neither on the server's clock nor on this process's Options. If
//     that leaves less than three round trips, the waiter asks first.
//   - [Lock.Deadline] is the moment up to which the hold can be trusted. It is measured on
//     the local monotonic clock from before the request was sent, so it lies before the
//     expiry in Redis. When it passes, or somebody else turns out to have the lock,
//     [Lock.Done] is closed and [Lock.Err] says how. [Lock.Release] ends the hold at once,
//     whether or not Redis answers.
//   - [Lock.Fence] grows from hold to hold. It is the server's time in microseconds, so it
//     also grows when Redis loses what it knew. Where that clock steps back, the fence is one
//     more than the last one, which Redis keeps for ten minutes after each hold: only a step
//     back by more than that, or one together with the loss of that key, can make fences lower
//     than earlier ones, by no more than the step, until the clock has caught up.
//   - At maxmemory a holder can still release its lock, and a waiter can still be handed
//     one. No key stays for ever: the last one of an idle lock goes after ten minutes.
//   - Calls end with their contexts, at most a quarter of a second later when Redis does
//     not answer, if the client has ContextTimeoutEnabled; however many locks they are about.
//     Cleaning up goes on without them.
//   - It works on a single Redis, Sentinel, and Cluster (each lock in one slot, also
//     while the slot moves).
//
// # What it does not promise
//
//   - A holder that is stalled past its deadline does not know that somebody else
//     holds the lock now. The store must refuse what it then writes: check
//     the token in the same step as the write ([NewScript]), or the fence. (Martin
//     Kleppmann, "How to do distributed locking", 2016.)
//   - Redis replicates asynchronously. After a failover two may hold a lock until one deadline
//     passes. A store that checks tokens in the same Redis is not hurt by that; nor is one that
//     checks fences, unless the new primary's clock is behind. The same where Redis evicts the
//     key of a hold: set maxmemory-policy noeviction.
//   - The key expires by the clock of Redis. A clock that jumps forward there
//     ends holds early, and their holders do not know; one that steps back keeps the lock of a
//     dead holder for longer, by as much.
//   - The local monotonic clock stands still while a machine is suspended, so a holder that
//     wakes up believes in its hold until its next extension. A store that checks the token or
//     the fence refuses what it writes.
//   - Locks are not reentrant. A caller that holds a lock and acquires it again, also in a
//     function that Do runs, waits for itself.
//   - A Redis that carries out a request but answers neither that nor the clean-up keeps the
//     lock taken for one TTL, or a position in the queue that costs the others one claim.
//   - A failover or a restart from an old copy may bring back a hold that was over, for what
//     is left of its TTL, and forget which requests are to do nothing. Until then a late copy
//     of a script of that hold is carried out.
//   - A box between the client and Redis that sends a request again, under the token that the
//     request has, may give a token the lock again after its hold, for one TTL. Its holder
//     does not believe in that, but a late copy of a script that checks the token is carried out.
//   - A process that waits while another program has the lock, or that cannot subscribe to wake-ups, asks
//     once per Options.Poll, some 200 times a second by default, for as long as it waits. While a process with
//     lockmgr has the lock it asks 8 times a second, by three requests each.
//   - Within one hold a script that the client sent twice may be carried out twice, the second
//     time after later scripts of the same hold. Make what one hold writes one script, or
//     have it compare.
//   - Processes may differ in their Options. Then a dead waiter costs the claim of the
//     process that handed the lock to it, and a dead holder its own TTL.
//   - If the ACL keeps a user of Redis from the wake-up channels (&Lock:*), its waiters find
//     out by polling that they have the lock: if only the holder lacks the right, after half a claim.
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
// [Manager.Do] and [Lock.Context] have one each, until the hold or the context ends. Otherwise
// there are none as long as no lock has to be waited for and Redis answers; with Options.Pipelined,
// those of the client's pipeline, which end with the client. Once a lock has to be waited for
// there are three, for the pub/sub connection of the wake-ups (see package pubsub), until [Manager.Close]. A
// watchdog has goroutines only while it extends. A request has one of its own when Redis
// is slow, or when it shares a round trip, and so has the clean-up after an Acquire that
// gave up.
//
// # Where things are
//
// Every rule of the lock is in lua/lock.lua. A call that waits: acquire.go; line.go, who waits in
// this process; slot.go and wait.go, a token that asks, waits and gives up; wakeups.go, how it
// hears that it has the lock. A hold: lock.go, extend.go, release.go. A request: send.go,
// pipeline.go, tokens.go for what is sent twice, call.go for what goes on without its caller.
package lockmgr
