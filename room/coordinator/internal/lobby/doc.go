// Package lobby lists all rooms, for lobbies and operators.
//
// [Lobby.Get] returns the list. One node at a time searches Redis for all rooms (search.go); what changes
// meanwhile comes from the nodes that change it (news.go).
//
// It runs the goroutines of package cachefill while a list is made, and a timer while this node's changes
// are not written. [Lobby.Close] ends them.
package lobby
