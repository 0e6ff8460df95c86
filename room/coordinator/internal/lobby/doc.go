// Package lobby keeps an index of all rooms in Redis: for lists of rooms, and for those who look for a table.
//
// Nodes note there what their commits have made of rooms (news.go), and each that is asked has a copy, which it brings up to
// date with what has changed since (lobby.go). [Lobby.Claim] finds a table (match.go). The index is a hint: rooms decide by themselves who sits
// down. What it misses, because a node has died before it noted a commit, or Redis has lost some of it or was
// changed by hand, comes with the next comparison of the index with all rooms, which one node at a time makes now and then
// (search.go). No request searches Redis.
//
// It runs a goroutine from the first use on, and a timer while this node's changes are not written. [Lobby.Close] ends
// them.
package lobby
