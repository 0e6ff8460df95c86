// Package nodes tells operators what the nodes on one Redis are and do.
//
// A [Beacon] counts what its node does (tally.go), writes that to Redis about once a second, and sees there
// whether somebody asks the node to stop. [Living] reads what all nodes have written, and [Drain] asks one of
// them to stop.
//
// A Beacon has the goroutine that calls [Beacon.Loop]. Counting allocates nothing: it runs with every action.
package nodes
