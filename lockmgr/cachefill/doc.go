// Package cachefill is a cache in Redis whose entries are loaded by one caller at a time, across all processes that
// share it: when an entry expires under load, the database behind it is asked once, not once for each request.
//
// Start with [New] and [Cache.Get]:
//
//	cache, err := cachefill.New(locks, cachefill.Options{Stale: time.Minute})
//	...
//	defer cache.Close()
//	lobby, err := cache.Get(ctx, "lobby", func(ctx context.Context) ([]byte, error) {
//		return readLobby(ctx)
//	})
//
// A value is fresh for Options.Fresh. After that, for Options.Stale, the old value is still returned, at once, while
// one caller loads a new one in the background. When there is no value, one caller loads it and the others wait. A
// lock decides who loads ([lockmgr.Manager.AcquireOrWait]): a caller that finds the lock held waits until that hold
// ends, and then reads what the holder stored. If the holder stored nothing, because its load was broken off, the
// next caller to get the lock loads.
//
// # What it promises
//
//   - As long as locks hold, one load of a key runs at a time, and a load that
//     succeeds serves all who wait for it, in every process.
//   - A loader that was stalled past the end of its hold overwrites no newer value: one script
//     checks its lock and stores the value.
//   - A load that fails stores no value. All who wait for it get its error: the error itself in the process that
//     loaded, an [ErrLoadFailed] with its text in others. Later callers load again: in the process that loaded, once
//     the load function has returned; in others, once Redis knows of the failure.
//   - A load that was broken off (its process died or closed the Cache, or its lock
//     was lost) is no failure to others: one of those who wait loads instead.
//   - In one process all calls for one key share one wait and its outcome. A caller whose
//     context ends stops waiting; the others do not notice, and the load goes on.
//   - Every request may be carried out twice, or late: the result of a load that arrives
//     after its lock was lost changes nothing.
//   - A load releases its lock even if Redis refuses both value and error (maxmemory, ACL). The caller still gets
//     the value, Options.Failed is told, and those who wait load for themselves, one process at a time.
//   - Every key in Redis expires.
//
// # What it does not promise
//
//   - A lock may be lost: in a failover, when Redis is emptied or restarted, or where it evicts keys. Then two loads
//     may run at a time, and Redis keeps the value of the one that has the lock. If a snapshot restores the lock of
//     a load that has ended, callers wait for it for at most Options.LockTTL.
//   - If Redis cannot be reached, or refuses the lock while there is no value, Get returns
//     an error: nobody loads without a lock, and nothing is kept in the process.
//   - Ages are by the server's clock. When it steps forward, values and locks expire sooner; when it steps back,
//     they live longer by the step, and a value from the future is loaded again. Clocks do not decide which callers
//     get a failure, except for those that join a wait within its last poll.
//   - There is no way to tell the cache that a value has changed. Choose Fresh by what an old value may cost.
//
// # Keys
//
// A key has at most 256 bytes: hash what may be longer. On Redis Cluster <key> is written
// {<key>}, so that an entry lives in one slot.
//
//	Cache:<key>                    hash    value; by = the token under which it was stored; at = when
//	Lock:Cache:<key>:Fill          the loader's lock
//	Lock:Cache:<key>:Fill:Failure  hash    message; by = the token of the load that failed; at = when
//
// "Cache:" is Options.Prefix and "Lock:" that of the lock manager. Times are the
// server's, in microseconds. A user of Redis needs both prefixes, and the commands
// of the lock, which lockmgr/README.md lists, with HSET, HGET and HMGET.
//
// # Goroutines
//
// Each shared wait, each background load and each call of a load function has one. That of a
// background load that failed ends only after Options.Backoff. [Cache.Close] cancels their
// contexts and waits for them, also for a load function that does not heed its context.
package cachefill
