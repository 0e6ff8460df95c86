// Package bench measures roomd beside other ways to keep who is in which room, on one
// Redis and in one run, and checks the lists of each.
//
// Start with [Run]. Every contender runs every workload: clients, each the user of one
// room, join and leave it over and over, one action at a time. The contenders, in order:
//
//   - article: the published lock. SET NX EX 3 with a spin of 5 ms, GET of the list, the
//     user appended or removed, SET, and a release by script. That the list is JSON, the
//     value a UUID, and that nobody is in it twice, are our choices.
//   - sadd: one SADD or SREM, no lock.
//   - lua: one script that checks the capacity and writes, no lock.
//   - lua+ap: the same through go-redis' AutoPipeline.
//   - roomd-1: roomd with one action in a hold.
//   - roomd: roomd with its defaults.
//
// sadd and lua do less than the others: nobody learns of a change, no list has a version,
// and nothing keeps a stale writer out. They show the limits of Redis.
//
// # What is measured
//
//   - Actions per second that ended within the measured time, after a warm-up, and Jain's
//     index of the clients' shares: 1 if all had the same number.
//   - Latency of those actions, and of the ones under way at the end, so that a client
//     that starves counts.
//   - Commands that Redis ran for an action, including those in scripts, and its
//     processor time. The embedded Redis does not report the latter, and its allocations
//     count as the clients'.
//   - Processor time and allocations of this process, clients and nodes, for an action.
//
// Each node has as many connections to Redis as clients, up to 512. Where a workload has
// four nodes, each is a coordinator or a client of its own in this process, with a quarter
// of each room's clients.
//
// # What is checked
//
// After each measurement the bench reads every room from Redis. A user whose last join
// was acknowledged must be there (otherwise lost), once (otherwise duplicate), and nobody
// else may be (phantom). A client whose last action failed may be there or not.
//
// # The network
//
// The workloads of the network delay what nodes read from Redis by 0.5 ms, the round trip of a data center. All contenders
// of rooms connect so.
//
// # Locks
//
// The workloads of locks compare lockmgr, alone and pipelined, with other locks in Redis: bsm/redislock, redsync and
// rueidislock. Clients take a lock and give it back, so an action is a hold. All contenders have a TTL of
// 3 s and, where they ask again, do so every 5 ms. Each hold checks that nobody else has the lock; in a second,
// shorter pass, which is not measured, it has the lock for a round trip.
//
// # The whole path
//
// The workload websocket is roomd as its clients see it: joins and leaves through 1,000
// WebSockets at 250 tables of four, events included. At each table two players come and
// go, and two stay and get the events. By turns with it the same clients send frames of
// the same size to an echo server of a few lines. All of this is in one process. In
// websocket-two-nodes one of the two who come and go, and one of those who stay, is at either node.
// websocket-paced is a node that has time: its clients make pauses, which do not count.
//
// # A node alone
//
// The workload memory measures a node with roomd's defaults, in a process of its own; package worker runs
// that, and the clients in others. It runs only if it is named.
package bench
