// Package store knows what Redis holds of rooms: their keys, the scripts that read and write them, and
// the text of members, events and journals. It decides nothing about a room; package room does.
//
// Start with [New] and [Store.Load]. [Store.Acquire] asks for a room's lock, [Store.Prepare] makes a
// [Commit] of what was done to a room, and [Store.Send] and [Move.Send] write commits. Each of them
// notices in the same step that Redis was restarted or replaced (incarnation.go).
//
// It starts no goroutine that outlives a call.
package store
