// Package bench measures roomd beside other ways to keep who is in which room, or to take a lock, on one
// Redis and in one run, and checks the lists of each.
//
// Start with [Run]. [Contenders] and [Workloads] say what is compared; contenders that are no roomd do less than
// roomd, and show the limits of Redis. Clients act over and over, one action at a time, after a warm-up. The columns
// of the tables say what is measured. Latency includes the actions under way at the end, so that a client that
// starves counts. The embedded Redis does not report its processor time, and its allocations count as the clients'.
//
// Each node has as many connections to Redis as clients, up to 512. Where a workload has several nodes, each is a
// coordinator or a client of its own in this process, with its share of each room's clients.
//
// After each measurement the bench reads every room from Redis. A user whose last join
// was acknowledged must be there (otherwise lost), once (otherwise duplicate), and nobody
// else may be (phantom). A client whose last action failed may be there or not.
//
// Lock contenders have a TTL of 3 s and, where they ask again, do so every 5 ms. Each hold checks that nobody else
// has the lock; in a second, shorter pass, which is not measured, it has the lock for a round trip.
//
// Two things have processes of their own, which [Main] makes of this program: a server whose memory is measured, and a
// network between nodes and Redis. Everything else is in this process.
package bench
