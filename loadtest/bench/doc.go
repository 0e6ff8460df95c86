// Package bench measures roomd and other ways to keep the lists of rooms, or to acquire a lock, on one Redis
// and in one run, and checks the lists of each.
//
// Start with [Run]. [Contenders] and [Workloads] describe the comparison. Contenders other than roomd do less
// than roomd, and show the limits of Redis. Clients act repeatedly, one action at a time, after a warm-up. The
// columns of the tables explain the figures. Latency includes the actions under way at the end, so that a
// client that starves counts. The embedded Redis does not report its processor time, and its allocations count
// as the clients'.
//
// Each node has as many connections to Redis as clients, up to 512. In a workload with several nodes, each is a
// coordinator or a client of its own in this process, with its share of each room's clients.
//
// After each measurement the bench reads every room from Redis. A user whose last join was acknowledged must be
// there (otherwise lost), once (otherwise duplicate), and nobody else may be there (phantom). A client whose
// last action failed may be there or not.
//
// Lock contenders have a TTL of 3 s and, if they poll, do so every 5 ms. Each hold checks that nobody else has
// the lock. In a second, shorter pass, which is not measured, each hold lasts for a round trip.
//
// Two things have processes of their own, which [Main] runs: a server whose memory is measured, and a network
// between nodes and Redis. Everything else is in this process.
package bench
