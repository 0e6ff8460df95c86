// Package checks looks whether all is as it should be, and changes nothing.
//
// [Redis.Check] tries what Redis allows and says what would go wrong later (rights.go). [Checks] compare
// the rooms that are watched on a node with what the node has built from their events, one after the other
// and without their locks.
//
// Checks have the goroutine that calls [Checks.Loop].
package checks
