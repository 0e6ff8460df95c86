// Package tally counts what a coordinator does, for those who look at the node from afar: totals
// since the start, and the 99th percentiles of the last seconds.
//
// Counting takes no lock and allocates nothing, so it runs with every action. Everything is safe for
// concurrent use, except that only one goroutine may call [Tally.Turn].
package tally
