// Package lab runs the published ways to use a Redis lock, and roomd among them, under
// the faults that happen in practice, and counts what goes wrong with each.
//
// Start with [Run]. Its [Report] is a matrix of disciplines and faults, which can be
// written as a table, as JSON, or as a page with every step of each failure.
//
// # Disciplines
//
// Each discipline is a row of the table in disciplines.go. It takes the published steps
// and no better ones: the same commands in the same order, with the same values, times and
// pauses, and random values drawn where the article draws them. testdata/published.txt has
// what a Redis server received from the articles' own code; a test compares them with
// that. Where the published code does not do what it means, there is a row for each: as
// printed, as meant, and as it runs with one client or the other. The plain disciplines
// work on the article's list in one string: they read, append and set it without checking
// who is in it. The last discipline is roomd itself, not a copy.
//
// What the articles leave open is the same for all, and the lab's choice: the list is a
// JSON array; a leave is a join the other way round; a player who finds the lock taken
// asks again every 5 ms where the article's caller gives up, for at most three TTLs of
// ten seconds. The comment of each discipline names the others.
//
// # Times
//
// A published second lasts Config.Second, so that locks of ten seconds expire while
// somebody watches. All TTLs, waits and clocks shrink by this factor, and nothing else
// does. To give Redis such times, the lab sends EX, EXPIRE, SETEX and TTL as PX, PEXPIRE,
// PSETEX and PTTL, and rounds the answer as TTL does. Pauses between two attempts that
// are published in milliseconds are not scaled. Nor is anything under heavy load, where
// nothing has to expire. Then, and where a second lasts a second, Redis receives the
// commands as they were published.
//
// # Faults
//
// Faults strike at named steps, never by luck. A plain discipline calls caller.at between
// its commands, where the driver may stop or crash it. Its clients reach Redis over a
// wire, a TCP proxy that can swallow one reply. roomd has no such calls: the wire finds
// its steps by the effect of its requests on the lock and the list, holds all its
// connections for a pause, and cuts them for a crash. So a stopped roomd loses nothing
// that it has sent: its late commit arrives. Where taking and reading, or writing and
// releasing, is one script, a fault between them strikes at the script's reply.
//
// Two columns are about bad luck, which the lab brings about: two callers draw the same
// value, a random number or the microsecond that PHP's uniqid is; and a lock is freed
// between two commands of a waiter, as happens now and then under heavy load. A failover
// sets the lock's keys back to what they were before the holder came.
//
// On a busy machine more can go wrong than the fault alone brings about. quiet.txt has the
// marks of a quiet one; the report puts others into parentheses, except for roomd's.
//
// While one caller is in trouble two others come. One joins, reads the list, and stops
// before its write until the trouble is over; the other leaves. So a stolen lock shows.
//
// All clients have go-redis' defaults, which send a command again when its reply is
// missing for five seconds. Where a reply is lost, that is five published seconds, or
// less, so that the command comes again when half the TTL is over and the lock exists.
//
// # What is counted
//
// Package anomaly counts from the history alone: the callers' replies, and the contents
// of Redis. All commands of a cell pass one at a time through one observer, which reads
// the lock and the list after each. So it is certain who held the lock, without any
// clock. Under heavy load there is no observer, so that rates are those of the
// discipline; the contents of Redis at the end count there, too.
//
// # The cache guard
//
// Many callers of several processes come at once to an expired entry: without a guard,
// behind each of the locks, and behind lockmgr/cachefill; once without any value, and
// once with the old value kept. A plain lock without a published wait is tried once, and
// a caller that does not get it uses the old value, or reads until the new one is there.
// Each outcome of timestamp means what
// it means to its article's caller: 1, load; 2, read the value, which should be there; 0,
// an error.
//
// Then three callers come one after the other, and a load takes longer than the lock's
// TTL. So two load at once, and the first may free the second's lock. A loader dies, and
// others keep coming until the value is new, or give up: it is never updated again. And
// three callers ask for what the database does not have; the article of timestamp stores
// that with a code of its own.
package lab
