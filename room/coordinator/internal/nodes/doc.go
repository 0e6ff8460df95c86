// Package nodes tells operators about the nodes on one Redis.
//
// A [Beacon] counts its node's work (tally.go), reports it to Redis about once a second, and reads there whether
// somebody asked the node to stop. [Living] reads the reports of all nodes, and [Drain] asks a node to stop.
//
// [Beacon.Loop] runs in a goroutine of its caller. Counting allocates nothing, because it runs with every action.
package nodes
