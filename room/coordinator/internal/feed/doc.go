// Package feed has the events of rooms in order and without gaps.
//
// [Feeds] subscribe to the rooms that are watched on this node. Where events were missed, or Redis has lost
// commits, the watchers get a snapshot instead (reread.go). A [Replica] is a room that is kept up to date
// by its events: a worker's copy is one, and what the continuous checks compare with Redis is another.
//
// A goroutine runs from the first watch on, and one for each server while snapshots are read from it.
package feed
