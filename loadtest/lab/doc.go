// Package lab runs the published ways to use a Redis lock, and roomd among them, under the faults that happen in
// practice, and counts what goes wrong with each. Start with [Run]: its [Report] can be written as a table, as JSON,
// or as a page.
//
// # Disciplines
//
// Each discipline is a row of the table in disciplines.go. It takes the published steps and no better ones: the same
// commands in the same order, with the same values, times and pauses, and random values drawn where the article draws
// them. testdata/published.txt has what a Redis server received from the articles' own code; a test compares them
// with that. Where the published code does not do what it means, there is a row for each: as printed, as meant, and
// as it runs with one client or the other. The last discipline is roomd itself, not a copy.
//
// What the articles leave open is the same for all, and the lab's choice: the list is a JSON array in one string,
// which callers read, append to and set without checking who is in it; a leave is a join the other way round; a
// player who finds the lock taken asks again every 5 ms where the article's caller gives up, for at most three TTLs
// of ten seconds. The comment of each discipline names the others.
//
// A published second lasts Config.Second, so that locks of ten seconds expire while somebody watches. All TTLs, waits
// and clocks shrink by this factor, and nothing else does; pauses that are published in milliseconds do not. Redis
// gets such times in milliseconds. Nothing is scaled under heavy load, where nothing has to expire.
//
// # Faults
//
// Faults strike at named steps, never by luck. A plain discipline calls caller.at between its commands, where the
// driver may stop or crash it. roomd has no such calls: the wire of its process finds its steps by the effect of its
// requests on the lock and the list, holds all its connections for a pause, and cuts them for a crash. So a stopped
// roomd loses nothing that it has sent: its late commit arrives. Where taking and reading, or writing and releasing,
// is one script, a fault between them strikes at the script's reply. While one caller is in trouble two others come,
// so that a stolen lock shows.
//
// Package anomaly counts from the history alone: the callers' replies, and the contents of Redis, which one observer
// reads after each command of a cell. So it is certain who held the lock, without any clock. Under heavy load there
// is no observer, so that nothing delays the discipline; the contents of Redis at the end count there, too. quiet.txt
// has the marks of a quiet machine; the report puts others into parentheses, except for roomd's.
package lab
