// Package store reads and writes rooms in Redis: keys, scripts, and the text of members, events and journals. It
// decides nothing about a room; package room does.
//
// Start with [New] and [Store.Load]. [Store.Acquire] asks for a room's lock, [Store.Prepare] turns the changes of a
// room into a [Commit], and [Store.Send] and [Move.Send] write commits. Each of them detects in the same atomic step
// that Redis was restarted or replaced (incarnation.go).
//
// No goroutine outlives a call.
package store
