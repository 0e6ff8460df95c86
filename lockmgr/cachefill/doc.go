// Package cachefill is a cache in Redis whose entries are loaded by one caller at a
// time, across all processes that share it: when an entry expires under load, the
// database behind it is asked once, not once for each request.
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
// A value is fresh for Options.Fresh. After that, for Options.Stale, the old value
// is still returned, at once, while one caller loads a new one in the background.
// When there is no value, one caller loads it and the others wait for it. Who loads
// is settled by a lock ([lockmgr.Manager.AcquireOrVanish]): who finds it held waits
// until it goes away, and then reads what its holder has left. If that is nothing,
// because the load was broken off, the first who asks takes over.
//
// # What it promises
//
//   - As long as locks hold, one load of a key runs at a time, and a load that
//     succeeds serves all who wait for it, in every process.
//   - A value is stored in the same step in which the loader's lock is checked: a
//     loader that was stalled past its lock does not overwrite a newer value.
//   - A load that fails stores no value. Its error reaches everybody who waits for
//     it: as it is in the process that loaded, as an [ErrLoadFailed] with its text
//     in others. Who comes after that loads again: in the process that loaded, after
//     the load function has returned; in others, after Redis was told. Any error of
//     the load function counts, whatever it wraps.
//   - A load that was broken off (its process died or closed the Cache, or its lock
//     was lost) is no failure to others: one of those who wait loads instead.
//   - In one process all calls for one key share one wait, and its end: also when
//     that is [ErrTimeout], or an error of Redis. A caller whose context ends leaves
//     it; the others do not notice, and the load goes on.
//   - Every request may be carried out twice, or late. The end of a load that comes
//     after its lock has gone changes nothing.
//   - A load ends with its lock given back even where Redis keeps neither value nor
//     error, because it is at its maxmemory or the user may not write there. The
//     caller has the value all the same, Options.Failed is told, and those who wait
//     load for themselves, one process at a time.
//   - Every key in Redis expires.
//
// # What it does not promise
//
//   - A lock may be lost: in a failover, when Redis is emptied or restarted, or where
//     it evicts keys. Then two loads may run at a time, and the value of the one that
//     has the lock is kept. A lock that a snapshot brings back after its load has
//     ended is waited for as if its loader had died: for at most Options.LockTTL.
//   - Who may not take locks, or can get none because Redis is at its maxmemory, gets
//     an error where there is no value yet: nobody loads without a lock.
//   - Ages are by the server's clock. When it steps forward values and locks go
//     sooner. When it steps back an entry from its future is loaded again; but one
//     that lies as long in the past again, once the clock gets there, is taken for
//     younger than it is by as much as the step, and the lock of a loader that died
//     stays as much longer. Which failure is told to whom depends on no clock, but
//     for callers who join a wait within the last poll before its end.
//   - There is no way to tell the cache that a value has changed. Choose Fresh for
//     what an old value may cost.
//   - Nothing is kept in the process: when Redis cannot be reached, Get fails.
//
// # Keys
//
// On Redis Cluster <key> is written {<key>}, so that an entry lives in one slot.
//
//	Cache:<key>                    hash    value; by = the token under which it was stored; at = when
//	Lock:Cache:<key>:Fill          the lock of who loads
//	Lock:Cache:<key>:Fill:Failure  hash    message; by = the token of the load that failed; at = when
//
// "Cache:" is Options.Prefix and "Lock:" that of the lock manager. Times are the
// server's, in microseconds. A user of Redis needs both prefixes, and the commands
// of the lock with HSET, HGET, HMGET and TIME.
//
// # Goroutines
//
// Each shared wait, each background load and each call of a load function runs in
// a goroutine of its own; that of a background load which failed ends after
// Options.Backoff. [Cache.Close] cancels their contexts and waits for them, and so
// for a load function that does not heed its context.
package cachefill
