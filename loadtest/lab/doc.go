// Package lab lets the published ways to use a Redis lock, and roomd among them,
// meet the faults that happen in life, and counts what goes wrong with each.
//
// Start with [Run]. Its [Report] is a matrix of disciplines and faults; it can be
// written as a table, as JSON and as a page with a timeline for each failure.
//
// # Disciplines
//
// Each stands in a file of its own, to be read beside its article: by the
// published steps, and no better: the same commands in the same order with the same
// values, times and pauses, as a test holds them against what Redis sees. The plain
// ones work on the article's list, a JSON array in one string that is read, appended
// to and set, without a look at who is in it; the last is package room, not a copy of
// it. What the articles leave open is the same for all: a player whose lock is held
// asks again every 5 ms, for at most three TTLs of ten seconds. What else the lab had
// to choose, the discipline's comment says.
//
// # Times
//
// A published second lasts Config.Second, so that locks of ten seconds expire while
// one watches: all TTLs, waits and clocks shrink by this one factor, and nothing
// else does. So that Redis can be told such times, EX, EXPIRE, SETEX and TTL are sent
// as PX, PEXPIRE, PSETEX and PTTL, whose answer is rounded as TTL's is. Pauses between
// two attempts that are published in milliseconds stay as they are. Under heavy load
// nothing has to expire, and nothing is scaled: then, and where a second lasts one,
// Redis sees the commands as they were published.
//
// # Faults
//
// They are injected at named steps, never by luck. A plain discipline calls
// caller.at between its commands, where the driver may stop or crash it; its clients
// reach Redis over a wire, a TCP proxy that can swallow a reply, once. roomd has no
// such calls: the wire finds its steps by what its requests do to the lock and the
// list, stands still with all its connections for a pause, and cuts them for a crash.
// A stopped roomd thus loses nothing that it has sent: its late commit arrives.
// Where taking and reading, or writing and releasing, is one script, the fault that
// lies between them strikes at its reply.
//
// Two columns are about bad luck, which is made to happen: two callers draw the same
// random number, one in 100,000; and a lock goes between two commands of a waiter, as
// it does now and then under heavy load.
//
// While one caller is in trouble two others come: one joins and, as soon as it has
// read the list, stands before its write until the trouble is over; another leaves.
// So a lock that was stolen is seen to be.
//
// All clients have go-redis' defaults, which send a command again when its reply
// stays away, after five seconds. Where one is lost, that is five published seconds,
// or less, so that it comes again when half the TTL is over and the lock still lives.
//
// # What is counted
//
// Package anomaly counts, from the history alone: what callers were told, and what
// Redis held. For the latter all commands of a cell pass through one observer, one
// at a time, which looks at the lock and the list after each: who held the lock is
// known for certain, and not reckoned from clocks. Under heavy load
// nobody looks, so that rates are those of the discipline; what Redis held in the
// end counts there, too.
//
// # The cache guard
//
// Many callers of several processes come at an expired entry at once: without a
// guard, behind each of the locks, and behind lockmgr/cachefill; once with no value
// at all, and once with the old value kept. A plain lock that is not published with a
// wait is asked once, and who does not get it uses the old value. Each outcome of
// timestamp means what it does to its article's caller: 1, it loads; 2, it reads the
// value, which should be there; 0 is an error.
//
// Then three come one after the other, when a load outlasts the lock's TTL: so that
// two load at once, and the first may free the second's lock.
package lab
