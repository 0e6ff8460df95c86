// Package cluster is one node's part among the nodes that share a Redis.
//
// A [Node] keeps the lease on its name, by which the others see that it lives (lease.go). It records in
// which rooms it may have members, and compares these records with the rooms as long as it lives
// (registration.go, the only place that writes them). When the lease of another node is over it shows
// that node's members as away, and removes them after their grace (eviction.go).
//
// On Redis Cluster all keys of a node share a hash slot (hashtags.go), and a node whose master is away moves
// to another one.
//
// From [Node.Start] on three goroutines run, until [Node.Close]: one prolongs the lease, one watches the
// other nodes, one compares records with rooms. Requests to several rooms at once have goroutines of
// their own.
package cluster
