// Package lab runs the published ways to use a Redis lock, and roomd, under faults that happen in practice, and
// counts their anomalies. Start with [Run]: its [Report] can be written as a table, as JSON, or as a page.
//
// # Disciplines
//
// Each discipline is a row of the table in disciplines.go. It follows the published steps exactly: the same
// commands in the same order, with the same values, times and pauses, and random values drawn where the article
// draws them. testdata/published.txt has the commands that a Redis server received from the articles' own code;
// a test compares them with the disciplines. Where the published code does not do what it means, there are
// several rows: as printed, as meant, and as it runs with one client or the other. The last discipline is roomd
// itself, not a copy.
//
// Where the articles leave a gap, all disciplines have the same choice of the lab: the list is a JSON array in
// one string, which callers read, append to and set without a check of its members; a leave is a join in
// reverse; a player who finds the lock held asks again every 5 ms where the article's caller gives up, for at
// most three TTLs of ten seconds. The comment of each discipline names other choices.
//
// A published second lasts Config.Second, so that locks of ten seconds expire in time. All TTLs, waits and
// clocks shrink by this factor, and nothing else does; pauses that are published in milliseconds do not. Redis
// gets such times in milliseconds. Nothing is scaled under heavy load, where nothing has to expire.
//
// # Faults
//
// Faults strike at named steps, never by luck. A plain discipline calls caller.at between its commands, where
// the driver may stop or crash it. roomd has no such calls: the wire of its process recognizes its steps by the
// effect of its requests on the lock and the list, stops all its connections for a pause, and cuts them for a
// crash. So a stopped roomd loses nothing that it has sent: its late commit arrives. If one script acquires and
// reads, or writes and releases, a fault between them strikes at the script's reply. While one caller is in
// trouble two others come, so that a stolen lock shows.
//
// Package anomaly counts from the history alone: the callers' replies, and the contents of Redis, which an
// observer reads after each command of a cell. So it is certain who held the lock, without any clock. Under
// heavy load there is no observer, so that nothing delays the discipline; the final contents of Redis count
// there, too. quiet.txt has the marks of a quiet machine; the report puts others into parentheses, except for
// roomd's.
package lab
