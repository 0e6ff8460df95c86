// Package bench measures roomd beside other ways to keep who is in which room, on
// one Redis and in one run, and checks the lists of each.
//
// Start with [Run]. Each contender meets each workload: a crowd of clients, each a
// user of one room, who join and leave it over and over, every client one action
// at a time. The contenders, in their order:
//
//   - article: the published steps. A lock by SET NX EX 3 that is spun for with
//     sleeps of 5 ms, GET of the list, the user appended or removed, SET, and a
//     release by script.
//   - sadd: one SADD or SREM, no lock.
//   - lua: one script that checks the capacity and writes, no lock.
//   - lua+ap: the same through go-redis' AutoPipeline.
//   - roomd-1: roomd with one action in a hold.
//   - roomd: roomd as it is by default.
//
// sadd and lua do less than the others: nobody is told of a change, no list has a
// version, a stale writer is not kept out. They show what Redis has to give.
//
// # What is measured
//
//   - Actions that ended within the measured time, after a warm-up, per second,
//     and Jain's index of the clients' numbers of them: 1 if all had the same.
//   - Latency of those, and of the ones that were under way at the end: a client
//     that starves is not forgotten.
//   - Commands that Redis ran for an action, those within scripts included, and
//     its processor time. The embedded Redis does not tell the latter, and what
//     it allocates counts as the clients' own.
//   - Processor time and allocations of this process, which is clients and nodes, for
//     an action.
//
// A contender's node has as many connections to Redis as clients, up to 512. Where
// a workload has four nodes, each is a coordinator or a client of its own in this
// process, and has a quarter of each room's clients.
//
// # What is checked
//
// After each measurement every room is read from Redis. Who was told last that
// they are in must be there (else they are lost), once (else duplicate), and
// nobody else (phantom). A client whose last action failed may be there or not.
//
// # The whole path
//
// The workload websocket is roomd as clients see it: joins and leaves through 1,000
// WebSockets at 250 tables of four, events included. At each table two players come
// and go, and two stay and are told of it. By turns with it an echo server of a few
// lines is sent frames of the same size by the same clients. All of this is in one
// process.
package bench
