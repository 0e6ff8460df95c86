// Package lab runs the published ways to use a Redis lock, and roomd among them, under the faults that happen in practice,
// and counts what goes wrong with each. Start with [Run]: its [Report] can be written as a table, as JSON, or as a page.
//
// # Disciplines
//
// Each discipline is a row of the table in disciplines.go. It takes the published steps and no better ones: the same commands
// in the same order, with the same values, times and pauses, and random values drawn where the article draws them.
// testdata/published.txt has what a Redis server received from the articles' own code; a test compares them with that. Where
// the published code does not do what it means, there is a row for each: as printed, as meant, and as it runs with one client
// or the other. The last discipline is roomd itself, not a copy.
//
// What the articles leave open is the same for all, and the lab's choice: the list is a JSON array in one string, which callers
// read, append to and set without checking who is in it; a leave is a join the other way round; a player who finds the lock
// taken asks again every 5 ms where the article's caller gives up, for at most three TTLs of ten seconds. The comment of each
// discipline names the others.
//
// # Times
//
// A published second lasts Config.Second, so that locks of ten seconds expire while somebody watches. All TTLs, waits and
// clocks shrink by this factor, and nothing else does; pauses that are published in milliseconds do not. To give Redis such
// times, the lab sends EX, EXPIRE, SETEX and TTL as PX, PEXPIRE, PSETEX and PTTL, and rounds the answer as TTL does. Nothing is
// scaled under heavy load, where nothing has to expire.
//
// # Faults
//
// Faults strike at named steps, never by luck. A plain discipline calls caller.at between its commands, where the driver may
// stop or crash it. Its clients reach Redis over a wire, a TCP proxy that can swallow one reply. roomd has no such calls: the
// wire finds its steps by the effect of its requests on the lock and the list, holds all its connections for a pause, and cuts
// them for a crash. So a stopped roomd loses nothing that it has sent: its late commit arrives. Where taking and reading, or
// writing and releasing, is one script, a fault between them strikes at the script's reply. A failover sets the lock's keys back
// to what they were before the holder came. While one caller is in trouble two others come: one joins, reads the list, and stops
// before its write until the trouble is over; the other leaves. So a stolen lock shows.
//
// # What is counted
//
// Package anomaly counts from the history alone: the callers' replies, and the contents of Redis. All commands of a cell pass one
// at a time through one observer, which reads the lock and the list after each. So it is certain who held the lock, without any
// clock. Under heavy load there is no observer, so that nothing delays the discipline; the contents of Redis at the end count there,
// too. On a busy machine more can go wrong than the fault alone brings about. quiet.txt has the marks of a quiet one; the
// report puts others into parentheses, except for roomd's.
//
// Two of the articles guard a cache with their lock. So callers come to an expired entry without a guard, and behind each of the
// locks, whose callers act on each outcome as the article's do; cache.go has the scenes. The guard of this project is tested in
// package lockmgr/cachefill.
package lab
