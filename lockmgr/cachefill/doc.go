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
// until it goes away, and then reads what its holder has left.
//
// # What it promises
//
//   - As long as locks hold, one load of a key runs at a time, and a load that
//     succeeds serves all who wait for it, in every process.
//   - A value is stored in the same step in which the loader's lock is checked: a
//     loader that was stalled past its lock does not overwrite a newer value.
//   - A load that fails stores no value. Its error reaches everybody who waits for
//     it: as it is in the process that loaded, as an [ErrLoadFailed] with its text
//     in others. Who comes after that loads again.
//   - In one process all calls for one key share one wait. A caller whose context
//     ends leaves it; the others do not notice, and the load goes on.
//   - Every key in Redis expires.
//
// # What it does not promise
//
//   - A lock may be lost in a failover, or with all else in Redis. Then two loads
//     may run at a time, and the value of the one that has the lock is kept.
//   - There is no way to tell the cache that a value has changed. Choose Fresh for
//     what an old value may cost.
//   - Nothing is kept in the process: when Redis cannot be reached, Get fails.
//
// # Keys
//
// On Redis Cluster <key> is written {<key>}, so that an entry lives in one slot.
//
//	Cache:<key>                    hash    value; by = the token under which it was stored
//	Lock:Cache:<key>:Fill          the lock of who loads
//	Lock:Cache:<key>:Fill:Failure  hash    at = when a load failed, by the server's clock; message
//
// "Cache:" is Options.Prefix and "Lock:" that of the lock manager. Whether a value
// is fresh is read off its remaining TTL, so that only the clock of Redis counts.
//
// # Goroutines
//
// Each shared wait, each background load and each call of a load function runs in
// a goroutine of its own. [Cache.Close] cancels their contexts and waits for them,
// and so for a load function that does not heed its context.
package cachefill
